"""Tests that a writer's memory does not grow with the collection. A separate process writes some GB of passages.

python memory_test.py
"""

import resource
import subprocess
import sys

import numpy as np

from collection_fixture import CollectionWriter, TemporaryFolderTest, main

PASSAGES, TOKENS, DIM = 60_000, 120, 128


def write(folder, storage, count):
    """Writes passages and prints the largest memory of the process, in bytes."""
    passages = np.random.default_rng(1).standard_normal((64, TOKENS, DIM)).astype(np.float16)
    with CollectionWriter(folder, dim=DIM, storage=storage, max_shard_bytes=1 << 30) as writer:
        for index in range(count):
            writer.add(f"passage {index}", passages[index % 64], {"title": f"Title {index}"})
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


class MemoryTest(TemporaryFolderTest):
    def largest(self, storage, count):
        command = [sys.executable, "-B", __file__, "--write", self.folder / f"{storage}-{count}", storage, str(count)]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    def test_two_gigabytes_and_a_fiftieth_of_it_take_the_same_memory(self):
        for storage, count in (("f16", PASSAGES), ("i8", PASSAGES // 2)):
            few, many = self.largest(storage, count // 50), self.largest(storage, count)
            print(f"{storage}: {few >> 20} MiB for {count // 50} passages, {many >> 20} MiB for {count}")
            # Ids take 24 bytes each, and twice as many while they are merged.
            self.assertLess(many - few, 24 << 20)
            self.assertLess(many, 256 << 20)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        main()
