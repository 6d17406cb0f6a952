"""Damages each file of a live collection's log in many ways. The server must either refuse the collection, with an
error that names it, or serve the correct documents and versions. No program may be ended by a signal.

    damage_test.py FOLDER_OF_THE_PROGRAMS

MAXSIM_TEST_SEED sets the seed, which is printed.
"""

import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

import grpc

import operations as op
import oracle as exact
import server as client
from world import ALL, World

SEED = int(os.environ.get("MAXSIM_TEST_SEED", "1"))
PROGRAMS = None
SETUP = {"storage": "f16", "dim": 16, "id_type": "string", "num_base": 40, "seed": SEED, "flags": client.NEVER_COMPACTS}
NAME = "snapshot"  # name of damaged copies: World checks versions in collections of this name
REFUSALS = (grpc.StatusCode.DATA_LOSS, grpc.StatusCode.FAILED_PRECONDITION)
# Each of these texts is part of the names of one kind of file. The log must have at least one file of each kind.
KINDS = [".log", ".sst", ".blob", "MANIFEST", "CURRENT", "IDENTITY", "OPTIONS", "LOCK", "acknowledged", "reserve"]


def without(data, begin, count):
    return data[:begin] + bytes(count) + data[begin + count :]


def flipped(data, at, bit):
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]


def damages_of(data, chooser):
    """Returns the damaged contents of a file by the name of the damage. None means that the file is missing."""
    size = len(data)
    found = {"missing": None, "empty": b""}
    if not data:
        return found
    found["zeroed"] = bytes(size)
    found["all ones"] = b"\xff" * size
    for count in {1, size - 1} | {chooser.randrange(size)}:
        found[f"cut to {count} of {size} bytes"] = data[:count]
    for at in {0, size - 1} | {chooser.randrange(size)}:
        bit = chooser.randrange(8)
        found[f"bit {bit} of byte {at} of {size} flipped"] = flipped(data, at, bit)
    for block in (512, 4096):
        begin = chooser.randrange(size) // block * block
        found[f"{block} bytes from {begin} of {size} zeroed"] = without(data, begin, min(block, size - begin))
    found["longer"] = data + bytes(chooser.randrange(1, 600))
    return {name: made for name, made in found.items() if made != data}


class DamageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="maxsim-damage-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name).resolve()
        cls.world = world = World(PROGRAMS, cls.folder, SETUP)
        cls.addClassCleanup(world.server.kill)
        world.begin()
        generator = op.Generator(SEED, "string")
        kinds = ["upsert", "delete"]
        # Writes and deletes documents, so that some records and versions are in tables and others in the write-ahead
        # log.
        for following in ("compact", "restart", "restart", "kill"):
            for _ in range(12):
                while (operation := generator.next())["op"] not in kinds:
                    pass
                world.apply(operation)
            long = [[34, 17, 3, 5, "f32"], [51, 34, 0, 6, "f32"]]  # in a blob file
            world.apply({"op": "upsert", "docs": long})
            world.apply({"op": following})
        generator.chooser.seed(SEED)
        world.apply({"op": "upsert", "docs": [[k, k, 6, k, "f32"] for k in range(20, 26)]})
        world.apply({"op": "delete", "ids": [20, 21], "version": 7})
        world.server.kill()

    def setUp(self):
        self.server = client.Server(PROGRAMS, self.folder)
        self.server.log_path = self.folder / "damaged.log"
        self.addCleanup(self.server.kill)
        self.server.start()

    def test_each_file_is_refused_or_harmless(self):
        log = self.world.path / "log"
        files = sorted(one.relative_to(log) for one in log.rglob("*") if one.is_file())
        for kind in KINDS:
            self.assertTrue(any(kind in one.name for one in files), f"the log has no file like {kind}: {files}")
        outcomes = {"refused": 0, "served": 0}
        for file in files:
            chooser = random.Random(f"{SEED} {file.suffix or file.name}")
            for what, data in damages_of((log / file).read_bytes(), chooser).items():
                with self.subTest(f"{file} {what}"):
                    outcomes[self._try(log, file, data)] += 1
        print(outcomes, flush=True)
        self.assertGreater(outcomes["refused"], 40)
        self.assertGreater(outcomes["served"], 10)

    def test_a_log_that_is_whole_is_served(self):
        self.assertEqual(self._try(self.world.path / "log", pathlib.Path("acknowledged"), None), "served")

    def _try(self, log, file, data):
        copy = self.folder / "damaged"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(log.parent, copy)
        (copy / "log" / file).unlink()
        if data is not None:
            (copy / "log" / file).write_bytes(data)
        is_whole = self._verify(copy)
        try:
            self.server.load(NAME, copy)
        except grpc.RpcError as error:
            self.assertTrue(self.server.alive(), self.server.log_end())
            self.assertIn(error.code(), REFUSALS, error.details())
            self.assertIn(str(copy), error.details())
            self.assertFalse(is_whole, f"maxsim-shard verify finds nothing: {error.details()}")
            return "refused"
        try:
            self._check(is_whole)
        finally:
            self.server.unload(NAME)
        return "served"

    def _verify(self, copy):
        command = [str(PROGRAMS / "maxsim-shard"), "verify", str(copy)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        self.assertIn(done.returncode, (0, 1), done.stdout + done.stderr)
        self.assertIn(str(copy), done.stdout + done.stderr)
        return done.returncode == 0

    def _check(self, is_whole):
        """Compares documents and versions with the oracle's. If `is_whole` (maxsim-shard verify found no damage), the
        server must have all of them."""
        world, oracle = self.world, self.world.oracle.copy()
        world.server, own = self.server, world.server
        whole, world.oracle = world.oracle, oracle
        absent = [world.id_of(k) for k in range(op.NUM_IDS) if world.id_of(k) not in oracle.documents]
        try:
            self._expect(is_whole, lambda: world.check_all(NAME))
            self._expect(is_whole, lambda: world.check_whole(NAME, SEED, ALL))
            self._expect(is_whole, lambda: world.check_get(NAME, absent, False))
            for k in range(op.NUM_IDS):
                if version := oracle.versions.get(world.id_of(k)):
                    self._expect_stale(k, version, is_whole)
        finally:
            world.server, world.oracle = own, whole

    def _expect(self, is_whole, check):
        try:
            check()
        except grpc.RpcError as error:
            self.assertFalse(is_whole, f"maxsim-shard verify finds nothing: {error.details()}")
            self.assertIn(error.code(), (*REFUSALS, grpc.StatusCode.UNAVAILABLE), error.details())

    def _expect_stale(self, k, version, is_whole):
        request = client.upsert_request(NAME, self.world._documents([[k, 1, version, 0, "f32"]]))
        outcome = lambda: self.server.upsert(request).results[0].outcome  # noqa: E731
        self._expect(is_whole, lambda: self.assertEqual(outcome(), exact.STALE, f"{k} with version {version}"))


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    print(f"MAXSIM_TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
