"""Kills a writer's process at many points. Afterwards the folder must have the previous generation or no collection,
and the next writer must remove all leftover files.

python killed_test.py MAXSIM_SHARD
"""

import json
import os
import random
import signal
import subprocess
import sys

import numpy as np

from collection_fixture import CollectionWriter, TemporaryFolderTest, main, run_shard

SEED = int(os.environ.get("MAXSIM_TEST_SEED", "1"))
ROUNDS = 24


def write_slowly(folder, marks):
    """Runs in the process that is killed: writes a generation of several shards, and prints a line at each step.

    Only a late document has a payload, so the writer must write the earlier shards again."""
    import maxsim.collection.folder as folder_module
    import maxsim.collection.folder_lock as lock_module
    import maxsim.collection.shard as shard_module

    def announced(module, name):
        original = getattr(module.os, name)

        def call(*arguments, **options):
            os.write(marks, b"x")
            return original(*arguments, **options)

        return call

    class AnnouncedOs:
        """Replaces the module os. Before each call that changes the folder, prints a line."""

        def __init__(self):
            for name in ("rename", "unlink", "fsync", "write", "open"):
                setattr(self, name, announced(shard_module, name))

        def __getattr__(self, name):
            return getattr(os, name)

    announcing = AnnouncedOs()
    folder_module.os = lock_module.os = shard_module.os = announcing
    sys.modules["maxsim.collection.writer"].os = announcing
    with CollectionWriter(folder, dim=8, max_shard_bytes=100_000, storage="f16") as writer:
        for index in range(12_000):
            writer.add(f"new {index}", np.full((2, 8), 0.5, np.float16), {"a": index} if index > 9000 else None)
            if index % 500 == 0:
                writer._flush()


class KilledTest(TemporaryFolderTest):
    def kill_after(self, folder, num_marks):
        """Runs write_slowly in a separate process and kills it after `num_marks` printed lines. Returns the number of
        lines, and whether the process was still running."""
        reader, writer = os.pipe()
        command = [sys.executable, "-B", __file__, "--write", folder, str(writer)]
        with subprocess.Popen(command, pass_fds=[writer], stderr=subprocess.PIPE) as process:
            os.close(writer)
            seen = 0
            while seen < num_marks:
                block = os.read(reader, min(num_marks - seen, 4096))
                if not block:
                    break
                seen += len(block)
            process.send_signal(signal.SIGKILL)
            error = process.stderr.read()
        os.close(reader)
        if process.returncode not in (0, -signal.SIGKILL):
            self.fail(error.decode())
        return seen, process.returncode != 0

    def files_of(self, folder):
        """Returns the names of the files of the published generation."""
        manifest = json.loads((folder / "collection.json").read_text())
        return {"collection.json", *(shard["file"] for shard in manifest["shards"])}

    def check_killed(self, folder, num_marks, num_documents):
        """Kills a writer. Checks that the next writer or the next build removes all leftover files."""
        _, was_there = self.kill_after(folder, num_marks)
        published = (folder / "collection.json").exists()
        if published:
            self.assert_whole(folder)
            manifest = json.loads((folder / "collection.json").read_text())
            self.assertIn(manifest["num_documents"], (num_documents, 12_000))
        elif folder.exists():
            self.assertEqual(num_documents, 0)
            self.assertNotEqual(run_shard("inspect", folder).returncode, 0)
        previous = {"collection.previous.json", *self.files_of(folder)} if published else set()
        if num_marks % 2 == 0:
            with CollectionWriter(folder, dim=8, storage="f16") as writer:
                writer.add("next", np.ones((1, 8), np.float16), {"a": 1})
        else:
            self.build([("next", np.ones((1, 8), np.float16), {"a": 1})], folder, name=folder.name, storage="f16")
        self.assert_whole(folder)
        left = set(os.listdir(folder)) - {".maxsim-build.lock"}
        self.assertEqual(left, previous | self.files_of(folder))
        return was_there

    def test_killed_at_any_point(self):
        total, was_there = self.kill_after(self.folder / "whole", 1 << 40)
        self.assertFalse(was_there)
        self.assertGreater(total, 100)
        print(f"seed {SEED}: {total} marks")
        rng = random.Random(SEED)
        # Tries all of the last steps, in which the generation is published, and a sample of the others.
        points = [*rng.sample(range(1, total), ROUNDS), *range(total - 12, total + 1)]
        killed = 0
        for number, point in enumerate(points):
            folder = self.folder / f"docs-{number}"
            count = 0
            if number % 2:
                self.write([(f"old {i}", np.ones((1, 8), np.float16), {"a": 1}) for i in range(3)], folder, 8)
                count = 3
            with self.subTest(point=point):
                killed += self.check_killed(folder, point, count)
        self.assertGreater(killed, ROUNDS)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write_slowly(sys.argv[2], int(sys.argv[3]))
    else:
        main()
