"""Tests a live collection on a disk that is full, slow or broken, with a damaged log, with a clock that jumps, and with
a second server on its folder. The server must report the fault, still answer reads, and lose no acknowledged write.

    faults_test.py FOLDER_OF_THE_PROGRAMS FOLDER_TO_COMPILE_IN

MAXSIM_TEST_SEED sets the seed, which is printed.
"""

import errno
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

import faults
import operations as op
import server as client
from numbered import payload_of, vectors
from world import NAME, World

SEED = int(os.environ.get("MAXSIM_TEST_SEED", "1"))
PROGRAMS = LIBRARIES = None
BUSY = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
RECOVERY_S = 30
NO_ROOM = re.compile(r"No space left on device|no room on the disk for the \d+ bytes")
# Matches what an error about a damaged log says: the first unreadable sequence, or that no write can be read.
NAMES_SEQUENCE = re.compile(r"from sequence (\d+) on|none of its writes")


def setup(**changes):
    return {"storage": "f16", "dim": 16, "id_type": "string", "num_base": 40, "seed": SEED, **changes}


def upsert_of(number, count=3):
    return {
        "op": "upsert",
        "docs": [[number + i, 7 * number + i, 0, number + i, "f32"] for i in range(count)],
        "check": 1,
    }


class FaultsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-faults-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.faults = faults.Faults(LIBRARIES)
        self.addCleanup(self.faults.close)

    def world(self, folder=None, **changes):
        """Starts a world in which operations on the collection's files fail."""
        folder = folder or self.folder
        changes.setdefault("flags", client.NEVER_COMPACTS)
        world = World(PROGRAMS, folder, setup(**changes), self.faults.environment(folder / NAME))
        self.addCleanup(world.server.kill)
        self.addCleanup(self.faults.clear)
        world.begin()
        return world

    def server_of_others(self, world):
        """Starts another server, without faults, which is allowed to load the world's collection."""
        path = world.folder / "other"
        world.oracle.build(PROGRAMS, path, "other")
        server = client.Server(PROGRAMS, world.folder)
        server.log_path = world.folder / "other.log"
        self.addCleanup(server.kill)
        server.start({"other": path})
        return server

    def expect_other_served(self, server):
        answer = server.rerank(client.rerank_request("other", vectors(1, 16)))
        self.assertEqual(len(answer.results[0].scores), 10)

    def expect_recovery(self, world, operation):
        """Repeats a write until it succeeds, which must be soon. A failed call may or may not have been applied."""
        until = time.monotonic() + RECOVERY_S
        while True:
            try:
                response = world.server.upsert(client.upsert_request(NAME, world._documents(operation["docs"])))
                break
            except grpc.RpcError as error:
                self.assertIn(error.code(), BUSY)
                self.assertLess(time.monotonic(), until, f"not writable again: {error.details()}")
                time.sleep(0.05)
        return response

    # Two servers.

    def test_a_second_server_is_refused_and_the_first_goes_on(self):
        world = self.world()
        world.apply(upsert_of(3))
        other = self.server_of_others(world)
        for _ in range(2):
            with client.refused(grpc.StatusCode.FAILED_PRECONDITION) as found:
                other.load("stolen", world.path)
            self.assertRegex(found[0].details(), r"open in another process")
            world.apply(upsert_of(9))
        self.expect_other_served(other)
        other.stop()
        command = [str(PROGRAMS / "maxsimd"), "--collection", f"{NAME}={world.path}"]
        for name, value in client.FLAGS.items():
            command += [f"--{name}", str(value)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        world.apply(upsert_of(15))
        world.apply({"op": "fresh", "check": 2})
        world.apply({"op": "kill"})

    # A damaged log.

    def _log_files(self, world):
        """Returns the log's files that hold writes, the largest first."""
        files = [path for path in (world.path / "log").rglob("*") if path.suffix in (".log", ".sst", ".blob")]
        return sorted((path for path in files if path.stat().st_size), key=lambda path: -path.stat().st_size)

    def _expect_damage_found(self, world, count, find_position, last):
        """Flips single bytes of the log. Each time, the server must serve the complete collection, or refuse it with an
        error that names a sequence up to `last`."""
        world.server.kill()
        server = self.server_of_others(world)
        refusals = 0
        chooser = random.Random(SEED)
        for attempt in range(count):
            copy = world.folder / f"damaged-{attempt}"
            shutil.copytree(world.path, copy)
            file = self._log_files(world)[0].relative_to(world.path)
            data = bytearray((copy / file).read_bytes())
            data[find_position(chooser, data)] ^= 1 << chooser.randrange(8)
            (copy / file).write_bytes(data)
            try:
                server.load("damaged", copy)
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.DATA_LOSS, error.details())
                named = NAMES_SEQUENCE.search(error.details())
                self.assertTrue(named, error.details())
                self.assertLessEqual(int(named[1] or 0), last, error.details())
                refusals += 1
            else:
                whole, world.server = world.server, server
                world.check_all("damaged")
                world.check_whole("damaged", attempt, 1000)
                world.server = whole
                server.unload("damaged")
            self.expect_other_served(server)
            shutil.rmtree(copy)
        server.stop()
        world.server.start({NAME: world.path})
        world.check_all()
        return refusals

    def _write_much(self, world):
        for number in range(40):
            world.apply(upsert_of(100 + 3 * number))

    def test_a_flipped_byte_in_a_write_that_was_not_moved_is_found(self):
        world = self.world()
        self._write_much(world)
        marker = b'"n":158'

        def in_a_payload(chooser, data):
            found = data.find(marker)
            self.assertGreaterEqual(found, 0, "the write is not in the log's largest file")
            return found + chooser.randrange(len(marker))

        sequence = world.oracle.documents[world.id_of(158)].sequence
        self.assertEqual(self._expect_damage_found(world, 3, in_a_payload, sequence), 3)

    def test_a_flipped_byte_anywhere_in_the_log_is_found_or_does_no_harm(self):
        world = self.world()
        self._write_much(world)
        world.apply({"op": "restart"})
        self._write_much(world)
        world.apply({"op": "restart"})
        last = world.oracle.sequence + 1
        refusals = self._expect_damage_found(world, 12, lambda chooser, data: chooser.randrange(len(data)), last)
        self.assertGreater(refusals, 0)

    def test_a_log_that_cannot_be_read_is_refused_and_whole_later(self):
        world = self.world()
        self._write_much(world)
        world.server.kill()
        world.server.environment = self.faults.environment(world.path / "log")
        path = world.folder / "other"
        world.oracle.build(PROGRAMS, path, "other")
        world.server.start({"other": path})
        self.faults.set(read_error=errno.EIO)
        with self.assertRaises(grpc.RpcError) as raised:
            world.server.load(NAME, world.path)
        self.assertNotEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.expect_other_served(world.server)
        self.faults.set(read_error=0)
        world.server.load(NAME, world.path)
        world.check_all()
        world.apply(upsert_of(3))

    # A disk that refuses writes.

    def _writes_fail(self, world, start_fault, end_fault):
        world.apply(upsert_of(3))
        start_fault()
        tried = upsert_of(500, 4)
        for _ in range(3):
            with client.refused(*BUSY):
                world.server.upsert(client.upsert_request(NAME, world._documents(tried["docs"])))
            for seed in range(5):
                world.check(seed * 7 + 1)
        self.assertTrue(world.server.info(NAME).live.error, "GetInfo does not say that nothing can be written")
        self.assertTrue(world.server.alive())
        end_fault()
        # Repeats the last write, so that it exists whatever happened to the failed ones.
        response = self.expect_recovery(world, tried)
        self.assertEqual([one.outcome for one in response.results], [1] * 4)
        world.oracle.sequence = response.sequence - 4  # the failed writes may exist, and have then used sequences
        world._upsert_each(tried["docs"], response.results)
        world.check(3)
        self.assertFalse(world.server.info(NAME).live.error)
        world.apply(upsert_of(30))
        for operation in ("fresh", "kill", "compact", "restart", "fresh"):
            world.apply({"op": operation, "check": 4})
        world.apply(upsert_of(33))

    def test_a_full_disk_refuses_writes_until_there_is_room(self):
        world = self.world()
        self._writes_fail(world, self.faults.disk_full, lambda: self.faults.disk_full(False))

    def test_a_disk_that_fails_to_write_refuses_writes_until_it_is_well(self):
        world = self.world()
        broken = lambda: self.faults.set(write_error=errno.EIO)  # noqa: E731
        self._writes_fail(world, broken, lambda: self.faults.set(write_error=0))

    def test_a_disk_that_fails_to_sync_refuses_writes_until_it_is_well(self):
        world = self.world()
        broken = lambda: self.faults.set(sync_error=errno.EIO)  # noqa: E731
        self._writes_fail(world, broken, lambda: self.faults.set(sync_error=0))

    def test_a_full_disk_stops_a_compaction_and_nothing_else(self):
        world = self.world()
        world.apply(upsert_of(3))
        self.faults.disk_full()
        with client.refused(*BUSY):
            world.server.compact(NAME)
        world.check(3)
        self.faults.disk_full(False)
        self.expect_recovery(world, upsert_of(900, 1))
        world.oracle.sequence = world.server.info(NAME).live.sequence - 1
        world._upsert_each(upsert_of(900, 1)["docs"])
        world.apply({"op": "compact"})
        world.apply({"op": "kill"})

    def _small_file_system(self):
        """Mounts a file system of 24 MiB and returns its folder."""
        small = self.folder / "a small disk"
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(small)], capture_output=True)
        if mounted.returncode != 0:
            self.skipTest("needs root: nothing can be mounted here; faults.c fills the disk in other tests")
        self.addCleanup(subprocess.run, ["umount", "-l", str(small)])
        return small

    def _fill(self, path):
        """Fills a file system with the file `path`."""
        with open(path, "ab", buffering=0) as file:
            for size in (65536, 512):
                try:
                    while file.write(b"\0" * size):
                        pass
                except OSError as error:
                    self.assertEqual(error.errno, errno.ENOSPC)

    def _write_until_full(self, world):
        """Upserts until a call is refused. Returns the documents of that call."""
        number, failed = 1000, None
        while failed is None:
            made = [[number + i, number + i, 0, 0, "f32"] for i in range(100)]
            try:
                response = world.server.upsert(client.upsert_request(NAME, world._documents(made)))
                world._upsert_each(made, response.results)
            except grpc.RpcError as error:
                self.assertIn(error.code(), BUSY)
                self.assertRegex(error.details(), NO_ROOM)
                self.assertNotRegex(error.details(), "small|/", "it shows folders of the server")
                failed = made
            number += 100
            self.assertLess(number, 200_000, "the file system never filled up")
        return failed

    def test_a_small_file_system_that_fills_up(self):
        small = self._small_file_system()
        world = self.world(small)
        self._fill(small / "filler")
        failed = self._write_until_full(world)
        world.check(1)
        (small / "filler").unlink()
        response = self.expect_recovery(world, {"docs": failed})
        world.oracle.sequence = response.sequence - len(failed)
        world._upsert_each(failed, response.results)
        world.check(2)
        for operation in ("kill", "compact", "fresh"):
            world.apply({"op": operation})

    def test_a_server_starts_on_a_full_disk_and_refuses_writes_until_there_is_room(self):
        world = self.world(self._small_file_system())
        filler = world.server.folder / "filler"
        world.server.folder = self.folder  # where it writes its ports
        self._fill(filler)
        failed = self._write_until_full(world)
        for end in (world.server.stop, world.server.kill):
            self._fill(filler)
            end()
            self._fill(filler)
            world.server.start({NAME: world.path})
            world.check_all()
            world.check(1)
            # At its start, the server removes unneeded files of the log, so there may be room for a few more writes.
            self._fill(filler)
            failed = self._write_until_full(world)
            self.assertRegex(world.server.info(NAME).live.error, NO_ROOM)
            world.check(2)
        filler.unlink()
        response = self.expect_recovery(world, {"docs": failed})
        world.oracle.sequence = response.sequence - len(failed)
        world._upsert_each(failed, response.results)
        world.apply({"op": "restart"})
        world.apply(upsert_of(3))

    # A slow disk.

    def test_nothing_is_acknowledged_or_visible_before_it_is_synced(self):
        world = self.world()
        world.apply(upsert_of(3))
        self.faults.set(hold_syncs=1)
        made = [[7000, 1, 0, 5, "f32"]]
        future = world.server.documents.Upsert.future(client.upsert_request(NAME, world._documents(made)), timeout=60)
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            self.assertFalse(future.done(), "acknowledged before it was synced")
            world.check(1)  # the check must not see the write
            world.check_get(NAME, [world.id_of(7000)], False)
        self.assertGreater(self.faults.get("num_held"), 0)
        self.faults.set(hold_syncs=0)
        world._upsert_each(made, future.result().results)
        world.check(1)
        world.check_get(NAME, [world.id_of(7000)], True)

    def test_reads_do_not_wait_for_a_slow_disk(self):
        world = self.world()
        rows = vectors(1, 16)

        # One write waits for a sync that does not end. Meanwhile the server must answer a hundred reads.
        self.faults.set(hold_syncs=1)
        made = [[2000, 1, 0, 0, "f32"]]
        write = world.server.documents.Upsert.future(client.upsert_request(NAME, world._documents(made)), timeout=60)
        while not self.faults.get("num_held"):
            time.sleep(0.01)
        for _ in range(100):
            world.server.rerank(client.rerank_request(NAME, rows, top_k=5))
            world.server.get(client.get_request(NAME, [world.id_of(1)]))
        self.assertFalse(write.done(), "acknowledged before it was synced")
        self.faults.set(hold_syncs=0)
        world._upsert_each(made, write.result().results)

    # A clock that jumps.

    def test_a_wall_clock_that_jumps_changes_nothing(self):
        world = self.world(flags=client.COMPACTS_OFTEN)
        generator = op.Generator(SEED, "string")
        for step in (86_400, -86_400, 0, -400 * 86_400, 3_600):
            self.faults.set(clock_seconds=step)
            generation = world.server.info(NAME).generation
            for operation in (generator.next() for _ in range(12)):
                if operation["op"] != "fresh":
                    world.apply(operation)
            world.apply(upsert_of(400))
            # Compactions must depend on the elapsed time, even if the wall clock jumps.
            until = time.monotonic() + RECOVERY_S
            while world.server.info(NAME).generation <= generation:
                self.assertLess(time.monotonic(), until, f"not compacted any more with the clock moved by {step} s")
                time.sleep(0.05)
            world.check(1)
        world.apply({"op": "kill"})
        world.apply({"op": "fresh"})

    def test_payloads_are_those_of_this_test(self):
        """The test of flipped bytes finds a write in a file by this part of its payload."""
        self.assertIn('"n":158', payload_of(158))


if __name__ == "__main__":
    PROGRAMS, LIBRARIES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    del sys.argv[1:3]
    print(f"MAXSIM_TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
