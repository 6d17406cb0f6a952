"""Random documents from a seed. Many of them have exactly equal scores. Each collection exists both as a whole and
split into partitions."""

import ctypes
import json
import random
import shutil

import nodes
import numpy as np
import oracle as exact
from numbered import payload_of, vectors

NUM_SLOTS = 4096
STRANGERS = 60  # ids that no generation has
EACH_GENERATION = 40  # number of documents in a generation that the next generation lacks
_XXHASH = ctypes.CDLL("libxxhash.so.0")
_XXHASH.XXH3_64bits.restype = ctypes.c_uint64
_XXHASH.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def slot_of(id):
    """Returns an id's slot, by docs/internals/cluster.md."""
    data = id.to_bytes(8, "little", signed=True) if isinstance(id, int) else id.encode()
    return _XXHASH.XXH3_64bits(data, len(data)) % NUM_SLOTS


def part_of(id, count):
    """Returns the partition of `count` that an id belongs to."""
    slot = slot_of(id)
    return next(index for index in range(count) if slot < (index + 1) * NUM_SLOTS // count)


class Corpus:
    def __init__(self, name, storage, id_type, seed, dim=24, size=400, fields=""):
        self.fields = fields  # as maxsim-shard takes them
        self.name, self.id_type, self.seed, self.dim, self.size = name, id_type, seed, dim, size
        self.storage = exact.Storage(storage, dim, 7 if storage == "i8" else 0)

    def id_of(self, number):
        if self.id_type == "int64":
            return {0: 0, 1: -(1 << 63), 2: (1 << 63) - 1}.get(number, number * 7919 - 1500)
        return {0: "é", 1: "x" * 512, 2: "a\tb/c"}.get(number, f"doc-{number}")

    def ids(self, generation=1):
        """Returns the ids of a generation, in its order."""
        first = (generation - 1) * EACH_GENERATION
        numbers = list(range(first, first + self.size))
        random.Random(self.seed).shuffle(numbers)
        return [self.id_of(number) for number in numbers]

    def strangers(self):
        return [self.id_of(number) for number in range(1_000_000, 1_000_000 + STRANGERS)]

    def documents(self, generation=1):
        chooser = random.Random(f"{self.seed}-{generation}")
        documents = {}
        for place, id in enumerate(self.ids(generation)):
            # About three documents, in any partitions, share one matrix of token vectors. Some matrices contain only a
            # few different values, so that different matrices can have equal scores, too.
            source = chooser.randrange(self.size // 3)
            rows = vectors(self.seed * 1000 + generation * 77 + source, self.dim)
            if source % 4 == 0:
                rows = np.sign(rows) * (np.abs(rows) > 1)
            elif source == 1:
                rows = np.zeros_like(rows)
            payload = payload_of(place) if place % 3 else ""
            if payload:
                members = json.loads(payload)
                if "book:" in self.fields and place % 7:
                    members["book"] = f"b{place % 17}"
                payload = json.dumps(members, ensure_ascii=False, separators=(",", ":"))
            documents[id] = exact.Document(self.storage, rows.astype(np.float32), payload)
        return documents


class Built:
    """A corpus on the disk: `whole`, and a folder for each of `count` partitions."""

    def __init__(self, programs, folder, corpus, count):
        self.programs, self.folder, self.corpus, self.count = programs, folder, corpus, count
        self.whole = folder / f"{corpus.name}-whole"
        self.parts = [folder / f"{corpus.name}-parts" / f"partition-{i}-of-{count}" for i in range(count)]
        self.generation = 0
        self.publish()

    def publish(self):
        """Writes the next generation of the whole collection and of all partitions."""
        self.generation += 1
        exact.build_collection(
            self.programs,
            self.whole,
            self.corpus.name,
            self.corpus.storage,
            self.corpus.documents(self.generation),
            "--max-shard-bytes",
            "16KiB",
            *(["--fields", self.corpus.fields] if self.corpus.fields else []),
        )
        output = self.parts[0].parent
        nodes.shard_tool(self.programs, "split", self.whole, "--into", self.count, "--output", output, "--quiet")

    def copy_whole(self, name):
        """Copies the published generation of the whole collection to a new folder. Later generations do not change this
        folder."""
        path = self.folder / name
        shutil.copytree(self.whole, path)
        return path

    def merge_without(self, index, name):
        """Makes a collection of all partitions except number `index`. Returns the folder of the collection."""
        path = self.folder / name
        left = [part for number, part in enumerate(self.parts) if number != index]
        nodes.shard_tool(self.programs, "merge", *left, "--output", path, "--quiet")
        return path
