"""Large collections of synthetic documents, written as fast as the disk accepts them.

Every document has the same number of tokens. Its vectors are consecutive rows of a pool that all documents share,
from a row of its own on. Shard files are written directly (docs/reference/formats.md), so that ten million documents
take only a minute and no other file.
"""

import concurrent.futures
import ctypes
import ctypes.util
import json
import os
import pathlib
import threading
import time

import numpy as np

DATA_BEGIN = 4096
POOL_ROWS = 1 << 16
BLOCK_BYTES = 16 << 20
TYPES = {"f16": ("F16", np.float16), "i8": ("I8", np.int8)}


def pool_of(dim, storage, seed, rows=POOL_ROWS):
    """Returns the rows of the pool [rows, dim]: unit vectors in F16, or INT8 elements that become about unit vectors
    when they are multiplied by i8_scale."""
    values = np.random.default_rng(seed).standard_normal((rows, dim), np.float32)
    values /= np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
    if storage == "f16":
        return values.astype(np.float16)
    return np.clip(np.rint(values / i8_scale(dim)), -127, 127).astype(np.int8)


def i8_scale(dim):
    """Returns the scale of every document. The largest of a million normal values is about 5 standard deviations."""
    return np.float32(5.2 / np.sqrt(dim) / 127)


def first_rows(begin, count, tokens, rows=POOL_ROWS):
    """Returns, for each document from `begin` on, the row of the pool at which its vectors begin."""
    numbers = np.arange(begin, begin + count, dtype=np.uint64)
    return ((numbers * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)) % np.uint64(rows - tokens + 1)


class XxHash:
    """XXH3-128 from libxxhash, the library that maxsimd is linked with. `found` says whether the library is on this
    machine."""

    def __init__(self, binaries):
        names = [
            *map(str, pathlib.Path(binaries).parent.glob("lib*/**/libxxhash.so*")),
            ctypes.util.find_library("xxhash"),
        ]
        self._library = None
        for name in filter(None, names):
            try:
                self._library = ctypes.CDLL(name)
                break
            except OSError:
                continue
        self.found = self._library is not None
        if not self.found:
            return

        class Digest(ctypes.Structure):
            _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

        self._library.XXH3_128bits.restype = Digest
        self._library.XXH3_128bits.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

    def of_file(self, path):
        """Returns a file's checksum as the manifest writes it. Without the library, it is all zeros, and the server
        must be told not to check it."""
        if not self.found:
            return "xxh3-128:" + "0" * 32
        data = np.memmap(path, np.uint8, "r")
        digest = self._library.XXH3_128bits(data.ctypes.data, data.nbytes)
        return f"xxh3-128:{digest.high:016x}{digest.low:016x}"


def write_shard(path, pool, begin, count, tokens, storage):
    """Writes documents `begin` to `begin` + `count` - 1, whose ids are these numbers."""
    kind, value_type = TYPES[storage]
    dim = pool.shape[1]
    row_bytes = dim * np.dtype(value_type).itemsize
    sections = [
        ("offsets", "I64", [count + 1], np.arange(0, (count + 1) * tokens, tokens, dtype=np.int64)),
        ("ids", "I64", [count], np.arange(begin, begin + count, dtype=np.int64)),
    ]
    if storage == "i8":
        sections.append(("scales", "F32", [count], np.full(count, i8_scale(dim), np.float32)))
    end = count * tokens * row_bytes
    header = {"__metadata__": {"format": "maxsim-shard", "format_version": "1"}}
    if storage == "i8":
        header["__metadata__"] |= {"rotation": "hadamard", "rotation_seed": "0"}
    header["tokens"] = {"dtype": kind, "shape": [count * tokens, dim], "data_offsets": [0, end]}
    for name, dtype, shape, data in sections:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + data.nbytes]}
        end += data.nbytes
    text = json.dumps(header).encode().ljust(DATA_BEGIN - 8)
    with open(path, "wb", buffering=0) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        step = max(1, BLOCK_BYTES // (tokens * row_bytes))
        block = np.empty((step, tokens, dim), value_type)
        for first in range(0, count, step):
            starts = first_rows(begin + first, min(step, count - first), tokens, len(pool)).astype(np.int64)
            for i, start in enumerate(starts.tolist()):
                block[i] = pool[start : start + tokens]
            write_all(file, block[: len(starts)])
        for _, _, _, data in sections:
            write_all(file, data)


def write_all(file, array):
    left = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    while len(left):
        left = left[file.write(left) :]


def write_collection(folder, name, binaries, *, documents, tokens, dim, storage, shard_documents, seed=1, workers=8):
    """Writes a collection with the ids 0, 1 and so on. Returns whether it has real checksums."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    pool, checksums = pool_of(dim, storage, seed), XxHash(binaries)
    spans = [(begin, min(shard_documents, documents - begin)) for begin in range(0, documents, shard_documents)]

    def make(index):
        begin, count = spans[index]
        path = folder / f"shard-000001-{index:05}.safetensors"
        write_shard(path, pool, begin, count, tokens, storage)
        return {
            "file": path.name, "num_documents": count, "num_tokens": count * tokens,
            "num_bytes": path.stat().st_size, "checksum": checksums.of_file(path),
        }  # fmt: skip

    with concurrent.futures.ThreadPoolExecutor(workers) as threads:
        shards = list(threads.map(make, range(len(spans))))
    manifest = {"format": "maxsim-collection", "format_version": 1, "name": name, "generation": 1, "dim": dim}
    manifest["storage"] = storage
    if storage == "i8":
        manifest["rotation"] = {"kind": "hadamard", "seed": 0}
    manifest |= {
        "id_type": "int64", "has_payloads": False, "num_documents": documents, "num_tokens": documents * tokens,
        "created_by": "bench/serving/live", "created_at": "2026-01-01T00:00:00Z", "shards": shards,
    }  # fmt: skip
    (folder / "collection.json").write_text(json.dumps(manifest, indent=1))
    return checksums.found


def make_collection(options, folder, name, storage, shards):
    """Calls write_collection with options.documents and the programs in options.bin, for a folder below `folder`."""
    return write_collection(
        folder / name, name, options.bin, documents=options.documents, tokens=options.tokens, dim=options.dim,
        storage=storage, shard_documents=max(1, options.documents // shards),
    )  # fmt: skip


def disk_rate(folder, num_bytes=1 << 30, block_bytes=8 << 20, small_writes=100, small_bytes=32 << 10):
    """Measures the disk under `folder`: bytes per second that are written and synced block by block, and the
    milliseconds of one small write with its sync."""
    path = pathlib.Path(folder) / f"disk-{os.getpid()}-{threading.get_ident()}"
    data = os.urandom(block_bytes)
    with open(path, "wb", buffering=0) as file:
        begin = time.perf_counter()
        for _ in range(num_bytes // block_bytes):
            file.write(data)
            os.fdatasync(file.fileno())
        rate = num_bytes / (time.perf_counter() - begin)
        small = []
        for _ in range(small_writes):
            begin = time.perf_counter()
            file.write(data[:small_bytes])
            os.fdatasync(file.fileno())
            small.append(1e3 * (time.perf_counter() - begin))
    path.unlink()
    return {
        "synced_bytes_per_second": rate,
        "synced_32k_ms_p50": float(np.percentile(small, 50)),
        "synced_32k_ms_p99": float(np.percentile(small, 99)),
    }
