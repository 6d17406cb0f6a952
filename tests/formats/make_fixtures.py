#!/usr/bin/env python3
"""Writes data/: small collections in every format that an earlier version of maxsimd used.

  tests/formats/make_fixtures.py [NAME...]      default: all

Needs a clone with the project's history, git, the Python packages numpy and xxhash, and ldb (package rocksdb-tools).
The tests need none of these, because they read data/, which is in the repository. Do not write existing fixtures again.
If a format changes, add a fixture of the last version before the change.

manifest-1, manifest-1-i8  by `CollectionWriter` of commit d745fbf83, the first one. maxsim-shard 0.2 wrote such bytes
manifest-2                 by `write_partition` below, in the layout of commit b47967163 (collection/manifest.cc,
                           collection/build/shard_plan.cc), which had no Python writer for partitions
manifest-3                 by `CollectionWriter` of commit feae19b1b, the first one with codes
manifest-4                 by `CollectionWriter` of commit cf246c54c, the first one with fields
log-1                      by `write_log` below, in the layout of commit dc29d9312 (collection/log), before the first
                           change of the log's format
log-2                      like log-1, for a log that follows a stream, in the layout of commit dddf486d0
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import xxhash
from fixture_documents import DIM, DOCUMENTS, FIELDS, LOG_SEQUENCE, half_rows, payload_text

DATA = pathlib.Path(__file__).resolve().parent / "data"
ROOT = pathlib.Path(__file__).resolve().parents[2]

# A program that runs in a separate process and imports the package of an old commit. Its arguments are the folder to
# write, the parameters of CollectionWriter as JSON, and the kind of ids.
OLD_WRITER = """
import json, sys
import numpy as np
from fixture_documents import DIM, DOCUMENTS, values
from maxsim.collection import CollectionWriter

folder, parameters, kind = sys.argv[1:]
writer = CollectionWriter(folder, dim=DIM, name="old", **json.loads(parameters))
for name, num_tokens, payload in DOCUMENTS:
    rows = np.array(values(name, num_tokens), np.float16).reshape(num_tokens, DIM)
    if kind == "int64":
        writer.add(ord(name), rows)
    else:
        writer.add(name, rows, payload)
writer.close()
"""


def write_by(commit, folder, kind="string", **parameters):
    """Writes `folder` with the Python package of a commit."""
    with tempfile.TemporaryDirectory() as checkout:
        archive = subprocess.run(["git", "archive", commit, "client/python"], cwd=ROOT, check=True, capture_output=True)
        subprocess.run(["tar", "-x", "-C", checkout], input=archive.stdout, check=True)
        path = os.pathsep.join([f"{checkout}/client/python", str(pathlib.Path(__file__).parent)])
        subprocess.run([sys.executable, "-B", "-c", OLD_WRITER, folder, json.dumps(parameters), kind], check=True,
                       env={**os.environ, "PYTHONPATH": path})


def checksum(data):
    return "xxh3-128:" + xxhash.xxh3_128(data).hexdigest()


def write_manifest(folder, manifest):
    (folder / "collection.json").write_text(json.dumps(manifest, indent=2) + "\n")


def shard_bytes(documents, ordinals):
    """Returns a shard file of a partition: a padded header, then the tensors in the order tokens, 8-byte integers,
    bytes."""
    def offsets(lengths):
        ends = [sum(lengths[:n]) for n in range(len(lengths) + 1)]
        return struct.pack(f"<{len(ends)}q", *ends)

    ids = [name.encode() for name, _, _ in documents]
    payloads = [payload_text(payload).encode() for _, _, payload in documents]
    count, num_tokens = len(documents), sum(number for _, number, _ in documents)
    tensors = [
        ("tokens", "F16", [num_tokens, DIM], b"".join(half_rows(name, number) for name, number, _ in documents)),
        ("offsets", "I64", [count + 1], offsets([number for _, number, _ in documents])),
        ("ordinals", "I64", [count], struct.pack(f"<{count}q", *ordinals)),
        ("id_offsets", "I64", [count + 1], offsets([len(name) for name in ids])),
        ("payload_offsets", "I64", [count + 1], offsets([len(payload) for payload in payloads])),
        ("id_bytes", "U8", [sum(map(len, ids))], b"".join(ids)),
        ("payload_bytes", "U8", [sum(map(len, payloads))], b"".join(payloads)),
    ]
    header, at = {"__metadata__": {"format": "maxsim-shard", "format_version": "1"}}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (4096 - 8 - len(text))
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, _, data in tensors)


def slot_of(name):
    return xxhash.xxh3_64_intdigest(name.encode()) % 4096


def write_partition(folder):
    """Writes a partition: the documents in the slots 0 to 2047, with their positions in the whole collection."""
    folder.mkdir()
    held = [(position, document) for position, document in enumerate(DOCUMENTS) if slot_of(document[0]) < 2048]
    documents = [document for _, document in held]
    data = shard_bytes(documents, [position for position, _ in held])
    (folder / "shard-000001-00000.safetensors").write_bytes(data)
    num_tokens = sum(number for _, number, _ in documents)
    write_manifest(folder, {
        "format": "maxsim-collection", "format_version": 2, "name": "old", "generation": 1,
        "partition": {"first_slot": 0, "end_slot": 2048}, "dim": DIM, "storage": "f16", "id_type": "string",
        "has_payloads": True, "num_documents": len(documents), "num_tokens": num_tokens,
        "created_by": "maxsim-shard 0.2.0", "created_at": "2026-11-26T07:22:29Z",
        "shards": [{"file": "shard-000001-00000.safetensors", "num_documents": len(documents), "num_tokens": num_tokens,
                    "num_bytes": len(data), "checksum": checksum(data)}],
    })  # fmt: skip


class Database:
    """A RocksDB database that ldb writes."""

    def __init__(self, path):
        self.path = path
        self._run("--create_if_missing", "put", "made", "")
        self._run("delete", "made")
        for family in ("records", "versions", "tombstones"):
            self._run("create_column_family", family)

    def _run(self, *arguments):
        subprocess.run(["ldb", f"--db={self.path}", *arguments], check=True, stdout=subprocess.DEVNULL)

    def put(self, family, values):
        """Puts values by key. Only text keys may have an empty value, because ldb accepts no empty values in
        hexadecimal."""
        pairs = [f"0x{part.hex()}" for key, value in values.items() if value for part in (key, value)]
        self._run(f"--column_family={family}", "--hex", "batchput", *pairs)
        for key in (key for key, value in values.items() if not value):
            self._run(f"--column_family={family}", "put", key.decode(), "")

    def close(self):
        """Removes files that a database does not need: logs, locks, and copies of the options."""
        for file in self.path.iterdir():
            if file.name.startswith(("LOG", "OPTIONS", "LOCK")):
                file.unlink()


def big_endian(number):
    return struct.pack(">Q", number)


def record_head(kind, version, name):
    return struct.pack("<BBQH", 1, kind, version, len(name)) + name.encode()


def upsert(version, name, num_tokens, payload):
    text = payload_text(payload).encode()
    sizes = struct.pack("<IfI", num_tokens, 0, len(text))
    return record_head(1, version, name) + sizes + half_rows(name, num_tokens) + text


def write_log(folder, streamed):
    """Writes a live collection: the shard of manifest-1 as generation 2, as a compaction would leave it, and a log."""
    shutil.copytree(DATA / "manifest-1", folder)
    manifest = json.loads((folder / "collection.json").read_text())
    manifest["generation"] = 2
    shards = manifest.pop("shards")
    write_manifest(folder, {**manifest, "log_sequence": LOG_SEQUENCE, "shards": shards})
    records = [
        upsert(5, "e", 2, {"lang": "it"}),
        record_head(2, 7, "a"),
        upsert(0, "d", 1, {"lang": "fr", "year": 2000}),
    ]
    if streamed:
        records.append(struct.pack("<BBB", 1, 3, 2))  # skipped, because the id had a newer version
    (folder / "log").mkdir()
    database = Database(folder / "log" / "records")
    last = LOG_SEQUENCE + len(records)
    meta = {
        "format_version": "2" if streamed else "1",
        "format": f"string ids, f16, dimension {DIM}",
        "first_sequence": str(LOG_SEQUENCE),
        "last_sequence": str(last),
        "has_versions": "",
    }
    if streamed:
        meta |= {"stream_name": "maxsim-old", "stream_created_ns": "1764115200000000000"}
    database.put("default", {key.encode(): value.encode() for key, value in meta.items()})
    database.put("records", {big_endian(number): record for number, record in enumerate(records, LOG_SEQUENCE + 1)})
    database.put("versions", {name.encode(): big_endian(n) for name, n in {"z": 3, "b": 9, "e": 5, "a": 7}.items()})
    text = shards[0]["checksum"].encode()
    ordinal_of_b = 1
    tombstones = b"\x02" + big_endian(LOG_SEQUENCE) + bytes([len(text)]) + text + struct.pack("<I", ordinal_of_b)
    database.put("tombstones", {big_endian(manifest["generation"]) + big_endian(0): tombstones})
    database.close()
    sequence = struct.pack("<Q", last)
    mark = sequence + struct.pack("<Qq", xxhash.xxh3_64_intdigest(sequence), 1)
    (folder / "log" / "acknowledged").write_bytes(mark)


WRITERS = {
    "manifest-1": lambda folder: write_by("d745fbf83", folder, storage="f16"),
    "manifest-1-i8": lambda folder: write_by("d745fbf83", folder, kind="int64", storage="i8", rotation_seed=7),
    "manifest-2": write_partition,
    "manifest-3": lambda folder: write_by("feae19b1b", folder, storage="f16", codes=2),
    "manifest-4": lambda folder: write_by("cf246c54c", folder, storage="f16", codes=1, fields=FIELDS),
    "log-1": lambda folder: write_log(folder, streamed=False),
    "log-2": lambda folder: write_log(folder, streamed=True),
}


def main():
    DATA.mkdir(exist_ok=True)
    for name in sys.argv[1:] or WRITERS:
        folder = DATA / name
        if folder.exists():
            shutil.rmtree(folder)
        WRITERS[name](folder)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"{name}: {size} bytes")


if __name__ == "__main__":
    main()
