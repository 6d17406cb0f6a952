"""The power fails at random moments while a server writes documents, compacts, makes snapshots and creates collections.
No acknowledged write may be lost, and no document may appear that was never written.

    power_cut_test.py FOLDER_OF_THE_PROGRAMS FOLDER_TO_COMPILE_IN

recorder.c records how maxsimd and maxsim-shard change their files. From this record, disk.py computes states that the
disk may have after a power cut. The test starts a server on each of these states. MAXSIM_TEST_SEED sets the seed,
MAXSIM_LIVE_POWER_CUTS the number of cuts.
"""

import collections
import os
import pathlib
import random
import sys
import tempfile
import unittest

import grpc

import disk
import faults
import operations as op
import server as client
from power_cut import RecordedWorld

SEED = int(os.environ.get("MAXSIM_TEST_SEED", "1"))
CUTS = int(os.environ.get("MAXSIM_LIVE_POWER_CUTS", "20"))
PROGRAMS = LIBRARY = None

SETUPS = {
    "made by CreateCollection": {"storage": "i8", "id_type": "int64", "num_base": 0, "flags": client.NEVER_COMPACTS},
    "built and compacted in the background": {
        "storage": "f16", "id_type": "string", "num_base": 35, "flags": client.COMPACTS_OFTEN, "codes": 2,
    },
}  # fmt: skip
OPERATIONS = 45
AFTER = 6  # operations after a power cut
# Syncs that a program with a bug might omit: those of folders, or of files whose paths contain one of these texts.
FORGOTTEN = ["folders", ".log", ".sst", "MANIFEST", ".json.tmp", ".safetensors.tmp"]
KINDS = {"upsert", "stream", "delete", "compact", "reload", "kill", "restart"}


class Operations:
    """Makes random operations: those of operations.py and those of power_cut.py."""

    def __init__(self, seed, id_type):
        self.chooser = random.Random(seed)
        self.generator = op.Generator(seed, id_type)

    def next(self):
        kind = self.chooser.random()
        if kind < 0.05:
            return {"op": "create", "number": self.chooser.randint(1, 5)}
        if kind < 0.08:
            return {"op": "drop", "number": self.chooser.randint(1, 5)}
        if kind < 0.11:
            return {"op": "keep"}
        while (operation := self.generator.next())["op"] not in KINDS:
            pass
        return operation


class PowerCutTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-power-cuts-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def recorded(self, name, count=OPERATIONS):
        """Returns a world after some operations, and records them all."""
        folder = self.folder / name.replace(" ", "-")
        folder.mkdir()
        world = RecordedWorld(PROGRAMS, LIBRARY, folder, {"dim": 16, "seed": SEED, **SETUPS[name]})
        self.addCleanup(world.server.kill)
        world.begin()
        operations = Operations(SEED, SETUPS[name]["id_type"])
        for operation in ({"op": "create", "number": 1}, {"op": "keep"}, {"op": "compact"}):
            world.do(operation)
        for _ in range(count):
            world.do(operations.next())
        return world

    def test_nothing_acknowledged_is_lost(self):
        counts = collections.Counter()
        for number, name in enumerate(SETUPS):
            world = self.recorded(name)
            entries = world.recording.read()
            counts.update(one.kind for one in entries)
            chooser = random.Random(SEED + number)
            for cut in range(CUTS // len(SETUPS)):
                self._cut_twice(world, entries, chooser, f"{name}, cut {cut}")
            world.server.kill()
        for kind in (disk.CREATE, disk.MAKE_FOLDER, disk.RENAME, disk.LINK, disk.REMOVE, disk.WRITE, disk.SYNC):
            self.assertGreater(counts[kind], 0, f"no entry of kind {kind} was recorded")

    def _cut_twice(self, world, entries, chooser, what):
        """Cuts the power. In a quarter of the cases, cuts it again while the server recovers from the first cut."""
        recording, steps = world.recording, world.steps
        again = chooser.random() < 0.25
        self._cut(world, entries, chooser, what, again)
        if again and world.recording.position():
            self._cut(world, world.recording.read(), chooser, f"{what}, and again", False)
        world.recording, world.steps = recording, steps

    def _cut(self, world, entries, chooser, what, is_recorded):
        count = chooser.randint(1, len(entries))
        writes = [index + 1 for index, one in enumerate(entries) if one.kind == disk.WRITE]
        if writes and chooser.random() < 0.5:
            count = chooser.choice(writes)  # right after a write, which is not synced yet
        choice = disk.Choice.of(chooser.randrange(1 << 30))
        with self.subTest(f"{what} after {count} of {len(entries)} entries with {choice}"):
            states = world.cut(entries, count, choice)
            if is_recorded:
                world.begin_record()
            wrong = self._what_is_wrong(world, states, chooser.randrange(1 << 30))
            self.assertEqual(wrong, "")

    def _what_is_wrong(self, world, states, seed):
        try:
            world.recover(states)
            if world.state.oracle is not None:
                self._go_on(world, seed)
        except grpc.RpcError as error:
            return f"{error.code()}: {error.details()}"
        except (AssertionError, RuntimeError) as error:
            return str(error) or repr(error)
        return ""

    def _go_on(self, world, seed):
        operations = Operations(seed, world.setup["id_type"])
        for _ in range(AFTER):
            world.do(operations.next())
        world.do_kill({})
        world.check_everything()

    def test_a_sync_that_is_forgotten_is_found(self):
        """The checks must fail if the record lacks the syncs of some files."""
        name = "built and compacted in the background"
        world = self.recorded(name, 15)
        entries = world.recording.read()
        self.assertEqual(self._find(world, entries, "no file has this name", tries=2), "")
        for forgotten in FORGOTTEN:
            with self.subTest(forgotten):
                self.assertNotEqual(self._find(world, entries, forgotten), "", "no cut of the power shows it")

    def _find(self, world, entries, forgotten, tries=10):
        """Tries power cuts as if the program had omitted the syncs that `forgotten` (one of FORGOTTEN) names. For the
        syncs of folders, all writes survive, but no unsynced change of names. For others, all changes of names survive,
        but no unsynced write. Returns the first error found, or ""."""
        is_folders = forgotten == "folders"
        chooser = random.Random(SEED)
        for count in [len(entries), *(chooser.randint(len(entries) // 3, len(entries)) for _ in range(tries))]:
            choice = disk.Choice(SEED, disk.INDEPENDENT, writes=float(is_folders), names=float(not is_folders))
            ignored = lambda path, is_folder: is_folder if is_folders else forgotten in path  # noqa: E731
            steps, states = world.steps, world.cut(entries, count, choice, ignored)
            wrong = self._what_is_wrong(world, states, 1)
            world.steps = steps
            if wrong:
                return wrong
        return ""


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    LIBRARY = faults.compile_library(sys.argv.pop(1), "recorder")
    print(f"MAXSIM_TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
