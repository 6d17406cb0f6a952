"""Reads the collections that maxsimd reads: collection.json and safetensors shards (docs/reference/formats.md)."""

import json
import pathlib

import numpy as np

_DTYPES = {"F16": np.float16, "F32": np.float32, "BF16": np.uint16, "I8": np.int8, "I64": np.int64, "U8": np.uint8}


def _tensors(path):
    """Returns the arrays of a safetensors file, mapped."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    data = np.memmap(path, np.uint8, "r", offset=8 + size)
    return {
        name: data[slice(*entry["data_offsets"])].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in header.items()
    }


class Collection:
    """A collection in the form that scoring needs. `shards` are mapped arrays of token vectors, in order."""

    def __init__(self, name, folder):
        folder = pathlib.Path(folder)
        manifest = json.loads((folder / "collection.json").read_text())
        self.name = name
        self.dim = manifest["dim"]
        self.storage = manifest["storage"]
        self.generation = manifest["generation"]
        self.has_strings = manifest["id_type"] == "string"
        self.rotation_seed = manifest.get("rotation", {}).get("seed")
        shards = [_tensors(folder / entry["file"]) for entry in manifest["shards"]]
        self.shards = [shard["tokens"] for shard in shards]
        lengths = np.concatenate([np.diff(shard["offsets"]) for shard in shards])
        self.lengths = lengths.astype(np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)])
        self.scales = np.concatenate([shard["scales"] for shard in shards]) if self.storage == "i8" else None
        self.num_documents = len(lengths)
        self.num_tokens = int(self.offsets[-1])
        if self.has_strings:
            self.ids = []
            for shard in shards:
                text, ends = shard["id_bytes"].tobytes(), shard["id_offsets"].tolist()
                self.ids += [text[begin:end].decode() for begin, end in zip(ends, ends[1:])]
            self._ordinals = {document: ordinal for ordinal, document in enumerate(self.ids)}
        else:
            self.ids = np.concatenate([shard["ids"] for shard in shards])
            self._order = np.argsort(self.ids, kind="stable")
            self._sorted = self.ids[self._order]
            first = int(self.ids[0])
            counted = np.array_equal(self.ids, np.arange(first, first + self.num_documents))
            self._first = first if counted else None

    def resolve(self, ids):
        """Returns the ordinals of ids, with -1 for ids that are not in the collection."""
        if self.has_strings:
            find = self._ordinals.get
            return np.fromiter((find(document, -1) for document in ids), np.int64, len(ids))
        wanted = np.fromiter(ids, np.int64, len(ids))
        if self._first is not None:
            ordinals = wanted - self._first
            return np.where((ordinals >= 0) & (ordinals < self.num_documents), ordinals, -1)
        places = np.minimum(np.searchsorted(self._sorted, wanted), self.num_documents - 1)
        return np.where(self._sorted[places] == wanted, self._order[places], -1)


def _splitmix(state):
    mask = (1 << 64) - 1
    state &= mask
    state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
    state = ((state ^ state >> 27) * 0x94D049BB133111EB) & mask
    return state ^ state >> 31


def rotation(seed, dim):
    """Returns the orthogonal matrix [dim, dim] of i8 storage: rows times the matrix are rotated rows."""
    size = 1 << (dim.bit_length() - 1)
    hadamard = np.ones((1, 1))
    while len(hadamard) < size:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    matrix = np.eye(dim)
    for turn, begin in ((0, 0), (1, dim - size)):
        for column in range(begin, begin + size):
            word = _splitmix(seed + (64 * turn + column // 64 + 1) * 0x9E3779B97F4A7C15)
            if word >> column % 64 & 1:
                matrix[:, column] *= -1
        part = slice(begin, begin + size)
        matrix[:, part] = matrix[:, part] @ hadamard / np.sqrt(size)
    return matrix.astype(np.float32)
