"""Measures the speed of maxsim.collection.CollectionWriter, and of `maxsim-shard build` with the same token vectors.

    python bench/collection/writer.py build/release/bin/maxsim-shard
    python bench/collection/writer.py --alone --passages 1000000 --storage f16

Prints, for each storage, megabytes of input per second, the best of several rounds in which the two programs take
turns, and the peak memory of the writer's process. A round of maxsim-shard is its whole process; a round of the
writer begins after NumPy was imported. The input is read once before the first round, so that it is in the page cache
if it fits. With --alone, no input is written, and the writer gets passages from memory, some of them repeatedly. Use
this for collections for which the disk has no room twice.

It needs NumPy and xxhash.
"""

import argparse
import json
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIFFERENT_PASSAGES = 256  # with --alone


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("shard_program", nargs="?", metavar="MAXSIM_SHARD", help="path of maxsim-shard")
    parser.add_argument("--alone", action="store_true", help="do not run maxsim-shard, and write no input")
    parser.add_argument("--passages", type=int, default=40_000, metavar="N")
    parser.add_argument("--tokens", type=int, default=120, metavar="N", help="of a passage, on average (default: 120)")
    parser.add_argument("--dim", type=int, default=128, metavar="N")
    parser.add_argument("--input", choices=("f16", "f32"), default="f16", help="type of the input (default: f16)")
    parser.add_argument("--storage", action="append", choices=("f32", "f16", "bf16", "i8"), help="default: f16 and i8")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR", help="where to write (default: a new one)")
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.alone and arguments.write is None and arguments.shard_program is None:
        parser.error("the path of maxsim-shard is needed, or --alone")
    return arguments


def passages(arguments, count, seed=1):
    """Returns token vectors [T, dim] of unit length and the tokens of each passage: half to one and a half the
    average."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(max(1, arguments.tokens // 2), arguments.tokens * 3 // 2 + 1, count)
    dtype = {"f16": np.float16, "f32": np.float32}[arguments.input]
    tokens = np.empty((int(lengths.sum()), arguments.dim), dtype)
    for begin in range(0, len(tokens), 65536):
        block = rng.standard_normal(tokens[begin : begin + 65536].shape, dtype=np.float32)
        tokens[begin : begin + 65536] = block / np.linalg.norm(block, axis=1, keepdims=True)
    return tokens, lengths


def write(arguments, source, target):
    """Writes a collection in this process, and prints its time and memory as JSON. `source` holds the input; "-":
    none."""
    sys.path.insert(0, str(ROOT / "client" / "python"))
    from maxsim.collection import CollectionWriter

    if source == "-":
        tokens, lengths = passages(arguments, DIFFERENT_PASSAGES)
        count = arguments.passages
    else:
        # A plain array over the mapped file, because views of a memmap cost more than the rest of `add`.
        tokens = np.load(pathlib.Path(source) / "tokens.npy", mmap_mode="r").view(np.ndarray)
        lengths = np.load(pathlib.Path(source) / "lengths.npy")
        count = len(lengths)
    ends = np.cumsum(lengths).tolist()
    lengths = lengths.tolist()
    num_bytes = 0
    began = time.perf_counter()
    with CollectionWriter(target, dim=arguments.dim, storage=arguments.storage[0], name="bench") as writer:
        for index in range(count):
            place = index % len(ends)
            rows = tokens[ends[place] - lengths[place] : ends[place]]
            writer.add(index, rows)
            num_bytes += rows.nbytes
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if source != "-":
        memory -= num_bytes  # the pages of the mapped input, all of which were read, do not count
    print(json.dumps({"bytes": num_bytes, "seconds": seconds, "memory": memory}))


def run_writer(arguments, storage, source, target):
    command = [sys.executable, "-B", __file__, "--storage", storage, "--write", source, target, "--alone"]
    for name in ("passages", "tokens", "dim", "input"):
        command += [f"--{name}", getattr(arguments, name)]
    return json.loads(subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout)


def run_shard(arguments, storage, source, target):
    command = [arguments.shard_program, "build", "--tokens", source / "tokens.npy", "--lengths", source / "lengths.npy"]
    command += ["--output", target, "--name", "bench", "--storage", storage, "--quiet"]
    began = time.perf_counter()
    subprocess.run(list(map(str, command)), check=True)
    return time.perf_counter() - began


def compare(arguments, storage, folder):
    source, target = folder / "source", folder / "collection"
    checksums, best = [], {}
    for _ in range(arguments.rounds):
        if not arguments.alone:
            seconds = run_shard(arguments, storage, source, target)
            best["shard"] = min(seconds, best.get("shard", seconds))
            checksums.append(json.loads((target / "collection.json").read_text())["shards"])
            shutil.rmtree(target)
        outcome = run_writer(arguments, storage, "-" if arguments.alone else source, target)
        best["writer"] = min(outcome["seconds"], best.get("writer", outcome["seconds"]))
        checksums.append(json.loads((target / "collection.json").read_text())["shards"])
        shutil.rmtree(target)
    if any(other != checksums[0] for other in checksums):
        sys.exit(f"{storage}: the files differ")
    rate = outcome["bytes"] / 1e6 / best["writer"]
    line = f"{storage:5} {rate:12,.0f} {outcome['memory'] / 2**20:12,.0f}"
    if not arguments.alone:
        shard_rate = outcome["bytes"] / 1e6 / best["shard"]
        line += f" {shard_rate:12,.0f} {rate / shard_rate:8.2f}"
    print(line, flush=True)


def main():
    arguments = parse()
    if arguments.write is not None:
        write(arguments, *arguments.write)
        return
    storages = arguments.storage or ["f16", "i8"]
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = pathlib.Path(name)
        if not arguments.alone:
            (folder / "source").mkdir()
            tokens, lengths = passages(arguments, arguments.passages)
            np.save(folder / "source" / "tokens.npy", tokens)
            np.save(folder / "source" / "lengths.npy", lengths)
            del tokens
        shape = f"{arguments.tokens} tokens x {arguments.dim}, {arguments.input}"
        print(f"{arguments.passages:,} passages of about {shape}")
        print("      writer MB/s   memory MiB" + ("" if arguments.alone else "   build MB/s    ratio"))
        for storage in storages:
            compare(arguments, storage, folder)


if __name__ == "__main__":
    main()
