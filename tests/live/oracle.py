"""Computes the contents that a live collection must have after a sequence of writes, and its documents' exact scores.

The oracle orders documents as the server does: first those that the collection had at the start, then upserted
documents in the order of their last upsert. It converts vectors to the storage type as the server does, and computes
scores in FP64. A server's score may differ by TOLERANCE times the magnitude that kernels/reference.h defines.
"""

import json
import math
import shutil
import subprocess

import numpy as np

TOLERANCE = 1e-5
APPLIED, STALE, NOT_FOUND = 1, 2, 3  # maxsim.v1.WriteOutcome

# The server forgets the version of a deleted id once later deletes with versions exceed REMEMBERED_BYTES
# (collection/log/version_memory.h). Each of them counts the bytes of its id plus BYTES_PER_VERSION.
REMEMBERED_BYTES = 128 << 20
BYTES_PER_VERSION = 64


_MASK = (1 << 64) - 1


def rotation_signs(seed, rotation_round, dim):
    """Returns a sign, 1 or -1, for each column. The signs are bits of SplitMix64 (kernels/quantize.h)."""
    signs = []
    for word in range(-(-dim // 64)):
        bits = (seed + (rotation_round * 64 + word + 1) * 0x9E3779B97F4A7C15) & _MASK
        bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & _MASK
        bits ^= bits >> 31
        signs += [-1 if bits >> i & 1 else 1 for i in range(64)]
    return np.array(signs[:dim], np.float32)


def hadamard(columns):
    """Returns the Hadamard transform of [n, span] in FP32, by sums and differences at the distances 1, 2, 4, ..."""
    count, span = columns.shape
    distance = 1
    while distance < span:
        pairs = columns.reshape(count, -1, 2, distance)
        columns = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], 2).reshape(count, span)
        distance *= 2
    return columns * np.float32(1 / math.sqrt(span))


def rotate(seed, rows):
    """Rotates FP32 rows as an i8 collection does."""
    rows = rows.copy()
    dim = rows.shape[1]
    span = 1 << (dim.bit_length() - 1)
    for rotation_round, begin in enumerate((0, dim - span)):
        signs = rotation_signs(seed, rotation_round, dim)[begin : begin + span]
        rows[:, begin : begin + span] = hadamard(rows[:, begin : begin + span] * signs)
    return rows


def quantize(rows):
    """Returns the i8 elements of rotated rows, and the scale that all of them share."""
    largest = np.abs(rows).max()
    if largest < np.float32(1e-30):
        return np.zeros(rows.shape, np.int8), np.float32(0)
    return np.rint(rows * (np.float32(127) / largest)).astype(np.int8), np.float32(largest / np.float32(127))


class Storage:
    """Converts vectors to the form that a collection stores, and queries to the form that the server scores."""

    def __init__(self, storage, dim, rotation_seed=0):
        self.storage, self.dim, self.rotation_seed = storage, dim, rotation_seed

    def store(self, rows):
        """Returns the elements as a collection stores them, and their scale (0 if the storage type has no scales)."""
        rows = np.asarray(rows, np.float32)
        if self.storage == "i8":
            return quantize(rotate(self.rotation_seed, rows))
        return rows.astype({"f16": np.float16, "f32": np.float32}[self.storage]), np.float32(0)

    def values(self, elements, scale):
        """Returns stored elements as FP64 values."""
        return elements.astype(np.float64) * (float(scale) if self.storage == "i8" else 1.0)

    def query(self, rows):
        rows = np.asarray(rows, np.float32)
        if self.storage != "i8":
            return self.values(*self.store(rows))
        return np.concatenate([self.values(*quantize(row[None])) for row in rotate(self.rotation_seed, rows)])


class Document:
    """One document as the collection stores it. `vectors` are the vectors as they were written."""

    __slots__ = ("vectors", "elements", "scale", "values", "payload", "sequence")

    def __init__(self, storage, vectors, payload="", sequence=0):
        self.vectors, self.payload, self.sequence = vectors, payload, sequence
        self.elements, self.scale = storage.store(vectors)
        self.values = storage.values(self.elements, self.scale)

    def same_as(self, other):
        return (
            self.payload == other.payload
            and self.scale == other.scale
            and self.elements.shape == other.elements.shape
            and self.elements.tobytes() == other.elements.tobytes()
        )


class Candidates:
    """Some documents in order, with their rows in one array for scoring."""

    def __init__(self, documents):
        self.documents = documents
        lengths = [len(one.values) for one in documents]
        self.starts = np.concatenate([[0], np.cumsum(lengths)])[:-1].astype(np.int64)
        self.rows = np.concatenate([one.values for one in documents]) if documents else None

    def scores(self, query, weights=None):
        """Returns the FP64 score of each document, and a magnitude for each: the error bound is TOLERANCE times the
        magnitude."""
        if not self.documents:
            return np.zeros(0), np.zeros(0)
        weights = np.ones(len(query)) if weights is None else np.asarray(weights, np.float64)
        best = np.maximum.reduceat(query @ self.rows.T, self.starts, axis=1)
        largest = np.maximum.reduceat(np.abs(query) @ np.abs(self.rows).T, self.starts, axis=1)
        return weights @ best, np.abs(weights) @ largest


class Oracle:
    """A live collection as documents.proto specifies it, simple and in memory."""

    def __init__(self, storage, id_type):
        self.storage, self.id_type = storage, id_type
        self.documents = {}  # Document by id, in the collection's order
        self.versions = {}  # last version by id, also of ids that are deleted or that the server forgot
        self.deleted_at = {}  # by id deleted with a version: `deleted_bytes` just after the delete
        self.deleted_bytes = 0  # sum over all deletes with a version
        self.sequence = 0
        self._whole = None

    def copy(self):
        other = Oracle(self.storage, self.id_type)
        other.documents, other.versions = dict(self.documents), dict(self.versions)
        other.deleted_at, other.deleted_bytes = dict(self.deleted_at), self.deleted_bytes
        other.sequence = self.sequence
        return other

    def reset(self):
        """Must be called after the caller changed `documents`."""
        self._whole = None

    def whole(self):
        if self._whole is None:
            self._whole = Candidates(list(self.documents.values()))
        return self._whole

    def begin_with(self, id, vectors, payload=""):
        """Adds a document of the collection's first generation."""
        self.documents[id] = Document(self.storage, vectors, payload)
        self._whole = None

    def version_of(self, id):
        """Returns the last version of the id. The next write must have a higher one. Returns 0 if the id has no version
        or the server forgot it."""
        if self.deleted_bytes - self.deleted_at.get(id, self.deleted_bytes) > REMEMBERED_BYTES:
            return 0
        return self.versions.get(id, 0)

    def _is_stale(self, id, version):
        if version == 0:
            self.versions.pop(id, None)
        elif self.version_of(id) >= version:
            return True
        else:
            self.versions[id] = version
        self.deleted_at.pop(id, None)
        return False

    def _note_deleted(self, id):
        """Counts the bytes of a delete with a version."""
        self.deleted_bytes += BYTES_PER_VERSION + (8 if self.id_type == "int64" else len(id.encode()))
        self.deleted_at[id] = self.deleted_bytes

    def upsert(self, id, vectors, payload="", version=0):
        """Applies the upsert of one document. Returns its outcome."""
        if self._is_stale(id, version):
            return STALE
        self.sequence += 1
        self.documents.pop(id, None)
        self.documents[id] = Document(self.storage, vectors, payload, self.sequence)
        self._whole = None
        return APPLIED

    def delete(self, id, version=0):
        """Applies the delete of one id and returns its outcome. Deleting an id without a document changes nothing if
        the delete has no version. With a version, the server may count it as a write, so the caller must then advance
        the sequence."""
        if version == 0 and id not in self.documents:
            return NOT_FOUND
        if self._is_stale(id, version):
            return STALE
        if version:
            self._note_deleted(id)
        if id not in self.documents:
            return NOT_FOUND
        self.sequence += 1
        del self.documents[id]
        self._whole = None
        return APPLIED

    def order(self):
        return list(self.documents)

    def build(self, programs, folder, name, *options):
        """Builds a new static collection of the documents, at least one. `options` are further arguments of
        maxsim-shard."""
        build_collection(programs, folder, name, self.storage, self.documents, *options)


def build_collection(programs, folder, name, storage, documents, *options):
    """Builds a collection with maxsim-shard from `documents` (ids to Documents), from the vectors as they were written.
    `options` are further arguments of maxsim-shard."""
    source = folder.with_name(folder.name + "-source")
    source.mkdir()
    np.save(source / "tokens.npy", np.concatenate([one.vectors for one in documents.values()]).astype(np.float32))
    np.save(source / "lengths.npy", np.array([len(one.vectors) for one in documents.values()]))
    with open(source / "docs.jsonl", "w", encoding="utf-8") as file:
        for id, one in documents.items():
            payload = json.loads(one.payload) if one.payload else {}
            file.write(json.dumps({"id": id, **payload}, ensure_ascii=False) + "\n")
    command = [programs / "maxsim-shard", "build", "--quiet", "--name", name, "--output", folder]
    command += ["--tokens", source / "tokens.npy", "--lengths", source / "lengths.npy"]
    command += ["--ids", source / "docs.jsonl", "--storage", storage.storage]
    if storage.storage == "i8":
        command += ["--seed", storage.rotation_seed]
    command += options
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"maxsim-shard build: {done.stderr}")
    shutil.rmtree(source)


def check_result(result, ids, candidates, query, top_k, weights=None, ordinals=None):
    """Compares the ranking of one query with exact scores. `ids` are the ids of the candidates, in order. If `ordinals`
    is None, the ranking's positions must be indices into `ids`. Otherwise the positions must increase in the order of
    `ids`, and `ordinals` (a dictionary) collects the position of each id. Returns why the ranking is wrong, or ""."""
    scores, magnitudes = candidates.scores(query, weights)
    place = {id: index for index, id in enumerate(ids)}
    found = [place.get(id) for id in result.ids]
    if None in found:
        return f"{result.ids[found.index(None)]!r} is ranked and no candidate"
    if len(found) != min(top_k, len(ids)) or len(set(found)) != len(found):
        return f"{len(found)} results, {len(set(found))} of them different, of {len(ids)} candidates with top_k {top_k}"
    if ordinals is None and list(result.positions) != found:
        return f"positions {list(result.positions)[:10]} instead of {found[:10]}"
    for index, got in zip(found, result.scores):
        if abs(got - scores[index]) > TOLERANCE * magnitudes[index]:
            return f"{ids[index]!r} has the score {got!r} instead of {scores[index]!r}"
    keys = [(-score, index) for score, index in zip(result.scores, found)]
    if keys != sorted(keys):
        return f"the ranking is not by score and then by order: {list(zip(result.ids, result.scores))[:20]}"
    bits = {}
    for index, got in zip(found, result.scores):
        document = candidates.documents[index]
        if bits.setdefault((document.scale, document.elements.tobytes()), got) != got:
            return f"{ids[index]!r} has other bits than a document of the same vectors: {got!r}"
    if found and len(found) < len(ids):
        left = np.ones(len(ids), bool)
        left[found] = False
        slack = TOLERANCE * magnitudes + TOLERANCE * magnitudes[found[-1]]
        missed = np.flatnonzero(left & (scores - slack > scores[found[-1]]))
        if len(missed):
            return f"{ids[missed[0]]!r} is better than the last result, and not ranked"
    return learn_ordinals(result, ids, found, ordinals) if ordinals is not None else ""


def learn_ordinals(result, ids, found, ordinals):
    """Adds the positions of a result to `ordinals`. Returns an error if they do not increase in the collection's
    order."""
    for index, position in zip(found, result.positions):
        if ordinals.setdefault(ids[index], position) != position:
            return f"{ids[index]!r} has the ordinal {position}, and had {ordinals[ids[index]]} in the same snapshot"
    known = [ordinals[id] for id in ids if id in ordinals]
    if any(a >= b for a, b in zip(known, known[1:])):
        return f"ordinals do not grow in the order of the last upserts: {known}"
    return ""
