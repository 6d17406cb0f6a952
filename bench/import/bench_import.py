"""Measures `maxsim import` of a large Parquet file, and `maxsim-shard build` of the same vectors in .npy files.

    PYTHONPATH=client/python python3 bench/import/bench_import.py --programs build/release/bin --folder /data/tmp \
        [--documents 1000000] [--tokens 30] [--dim 128] [--type f32|f16] [--layout fixed|nested|flattened]

One source and one collection are in the folder at a time, and both are removed. Each program is a process of its own,
which runs `--rounds` times. The output has the smallest seconds of all rounds, MB of the source's vectors per second,
CPU seconds (user and system, of all threads), and the largest resident memory and its anonymous part."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from typing import Callable, Iterator, List, Tuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

_BATCH = 2000
_MB = 1e6
_TYPES = {"f32": np.dtype("<f4"), "f16": np.dtype("<f2")}


def make_batches(arguments: argparse.Namespace) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
    """Returns the lengths of documents, and their packed vectors of unit length. Every call returns the same ones."""
    random = np.random.default_rng(7)
    pool = random.standard_normal((1 << 16, arguments.dim), dtype=np.float32)
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    pool = pool.astype(_TYPES[arguments.type])
    for first in range(0, arguments.documents, _BATCH):
        lengths = random.integers(1, 2 * arguments.tokens, min(_BATCH, arguments.documents - first))
        yield lengths, pool[random.integers(0, len(pool), int(lengths.sum()))]


def labels(first: int, count: int) -> Tuple[List[str], List[str]]:
    names = [f"passage-{number}" for number in range(first, first + count)]
    return names, [f"title of {name}" for name in names]


def vector_array(layout: str, lengths: np.ndarray, vectors: np.ndarray) -> pa.Array:
    dim = vectors.shape[1]
    values = pa.array(vectors.reshape(-1))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    if layout == "flattened":
        return pa.ListArray.from_arrays(offsets * dim, values)
    if layout == "fixed":
        inner = pa.FixedSizeListArray.from_arrays(values, dim)
    else:
        inner = pa.ListArray.from_arrays(np.arange(len(vectors) + 1, dtype=np.int32) * dim, values)
    return pa.ListArray.from_arrays(offsets, inner)


def write_parquet(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    writer = None
    number = 0
    for lengths, vectors in make_batches(arguments):
        names, titles = labels(number, len(lengths))
        number += len(lengths)
        table = pa.table({"id": names, "vectors": vector_array(arguments.layout, lengths, vectors), "title": titles})
        if writer is None:
            compression = None if arguments.compression == "none" else arguments.compression
            writer = pq.ParquetWriter(folder / "a.parquet", table.schema, compression=compression)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def write_arrays(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    all_lengths = np.concatenate([lengths for lengths, _ in make_batches(arguments)])
    np.save(folder / "lengths.npy", all_lengths)
    shape = (int(all_lengths.sum()), arguments.dim)
    number = 0
    with open(folder / "tokens.npy", "wb") as tokens, open(folder / "ids.jsonl", "w", encoding="utf-8") as ids:
        header = {"descr": _TYPES[arguments.type].str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(tokens, header)
        for lengths, vectors in make_batches(arguments):
            names, titles = labels(number, len(lengths))
            number += len(lengths)
            ids.writelines(f'{{"id":"{name}","title":"{title}"}}\n' for name, title in zip(names, titles))
            vectors.tofile(tokens)


def anonymous_mb(process: int) -> float:
    """Returns the anonymous resident memory of a process in MB, or 0 if the process has ended."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(found[1]) * 1024 / _MB if found else 0.0


def run(command: List[str]) -> Tuple[float, float, float, float]:
    """Returns seconds, CPU seconds, and the peaks of the resident memory and of its anonymous part in MB."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    anonymous = 0.0
    while True:
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        anonymous = max(anonymous, anonymous_mb(process.pid))
        time.sleep(0.01)
    seconds = time.monotonic() - begin
    if os.waitstatus_to_exitcode(status) != 0:
        raise SystemExit(f"failed: {' '.join(command)}")
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / _MB, anonymous


def measure(
    name: str,
    arguments: argparse.Namespace,
    write: Callable[[argparse.Namespace, pathlib.Path], None],
    command: List[str],
) -> None:
    folder = arguments.folder / "bench_import"
    folder.mkdir()
    try:
        write(arguments, folder)
        num_bytes = sum(vectors.nbytes for _, vectors in make_batches(arguments))
        rounds = []
        for _ in range(arguments.rounds):
            shutil.rmtree(folder / "out", ignore_errors=True)
            rounds.append(run([part.replace("FOLDER", str(folder)) for part in command]))
        seconds, cpu, resident, anonymous = (pick(column) for pick, column in zip((min, min, max, max), zip(*rounds)))
        print(
            f"{name:20}{seconds:8.1f} s{num_bytes / _MB / seconds:8.0f} MB/s{cpu:8.1f} s of CPU"
            f"{resident:8.0f} MB resident, {anonymous:.0f} MB of them no file's",
            flush=True,
        )
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description="`maxsim import` of Parquet beside `maxsim-shard build`")
    parser.add_argument("--programs", type=pathlib.Path, required=True, help="folder of maxsim-shard")
    parser.add_argument(
        "--folder", type=pathlib.Path, required=True, help="folder for all files, on the disk to measure"
    )
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=30, help="mean tokens of a document")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--type", choices=tuple(_TYPES), default="f32", help="of the source; f16 is stored")
    parser.add_argument("--layout", choices=("fixed", "nested", "flattened"), default="fixed")
    parser.add_argument("--compression", choices=("none", "snappy", "zstd"), default="snappy")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    print(f"{arguments.documents:,} documents of {arguments.tokens} tokens x {arguments.dim}, {arguments.type}")
    build = [
        *(str(arguments.programs / "maxsim-shard"), "build", "--tokens", "FOLDER/tokens.npy"),
        *("--lengths", "FOLDER/lengths.npy", "--ids", "FOLDER/ids.jsonl", "--output", "FOLDER/out", "--storage", "f16"),
    ]
    measure("maxsim-shard build", arguments, write_arrays, build)
    dim = ["--dim", str(arguments.dim)] if arguments.layout == "flattened" else []
    imported = [
        *(sys.executable, "-m", "maxsim", "import", "--from", "parquet", "FOLDER/a.parquet", "--quiet", *dim),
        *("--payload-columns", "title", "--output", "FOLDER/out", "--storage", "f16"),
    ]
    measure(f"import, {arguments.layout}", arguments, write_parquet, imported)


if __name__ == "__main__":
    main()
