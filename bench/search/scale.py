#!/usr/bin/env python3
"""Makes a collection of any size from the real one.

    bench/search/scale.py --from data/minilm --documents 1000000 --out data/minilm-1000000

A collection that is no larger than the real one consists of the real one's first documents, which include the
documents of all questions. A larger one is the real one, followed by documents made of real token vectors. Each of
these has the length of a real document and consists of `--spans` spans of consecutive tokens from anywhere. Each
coordinate gets normal noise, and each vector is normalised again. The same arguments give the same files on every
machine, whatever the number of threads.
"""

import argparse
import concurrent.futures
import os
import pathlib

import numpy as np

from documents import Documents, load_documents, offsets_of, save_documents

SPANS = 4
NOISE = 0.05  # standard deviation of each coordinate, the same as in bench/serving/exact_scan
SEED = 5
BLOCK = 10_000  # documents that one task makes with its own random generator


def made_lengths(real: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Returns the lengths of `count` made documents, drawn at random from those of real documents."""
    return np.random.default_rng([seed, 0]).choice(real, count).astype(np.int64)


def make_block(
    real: Documents, lengths: np.ndarray, generator: np.random.Generator, noise: float, spans: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the vectors and the word pieces of made documents of these lengths."""
    document = np.repeat(np.arange(len(lengths)), lengths)
    position = np.arange(len(document)) - offsets_of(lengths)[document]
    starts = generator.integers(0, len(real.vectors), (len(lengths), spans))
    rows = (starts[document, position * spans // lengths[document]] + position) % len(real.vectors)
    vectors = real.vectors[rows].astype(np.float32)
    vectors += noise * generator.standard_normal(vectors.shape, np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float16), real.pieces[rows]


def scale(
    real: Documents,
    num_documents: int,
    folder: pathlib.Path,
    *,
    noise: float = NOISE,
    spans: int = SPANS,
    seed: int = SEED,
    threads: int | None = None,
) -> Documents:
    """Writes `num_documents` documents into `folder`, and returns them."""
    if num_documents < 1:
        raise ValueError(f"--documents {num_documents}: must be at least 1")
    kept = min(num_documents, len(real))
    kept_tokens = int(real.lengths[:kept].sum())
    if num_documents <= len(real):
        part = Documents(real.vectors[:kept_tokens], real.lengths[:kept], real.pieces[:kept_tokens])
        save_documents(folder, part)
        return load_documents(folder)
    lengths = np.concatenate([real.lengths, made_lengths(real.lengths, num_documents - kept, seed)])
    offsets = offsets_of(lengths)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "lengths.npy", lengths)
    shape = (int(offsets[-1]), real.dim)
    vectors = np.lib.format.open_memmap(folder / "tokens.npy", "w+", np.float16, shape)
    pieces = np.lib.format.open_memmap(folder / "pieces.npy", "w+", real.pieces.dtype, shape[:1])

    def copy(begin: int) -> None:
        end = min(begin + (1 << 20), kept_tokens)
        vectors[begin:end], pieces[begin:end] = real.vectors[begin:end], real.pieces[begin:end]

    def make(begin: int) -> None:
        end = min(begin + BLOCK, num_documents)
        rows = slice(int(offsets[begin]), int(offsets[end]))
        generator = np.random.default_rng([seed, 1, begin])
        vectors[rows], pieces[rows] = make_block(real, lengths[begin:end], generator, noise, spans)

    with concurrent.futures.ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        for _ in pool.map(copy, range(0, kept_tokens, 1 << 20)):
            pass
        for _ in pool.map(make, range(kept, num_documents, BLOCK)):
            pass
    vectors.flush()
    pieces.flush()
    return load_documents(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", type=pathlib.Path, required=True, help="folder of encode.py")
    parser.add_argument("--documents", type=int, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write")
    parser.add_argument("--noise", type=float, default=NOISE, help="of each coordinate (default: %(default)s)")
    parser.add_argument("--spans", type=int, default=SPANS, help="of each made document (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="(default: %(default)s)")
    options = parser.parse_args()
    made = scale(
        load_documents(options.source),
        options.documents,
        options.out,
        noise=options.noise,
        spans=options.spans,
        seed=options.seed,
    )
    print(f"{len(made):,} documents, {len(made.vectors):,} vectors of {made.dim} in {options.out}")


if __name__ == "__main__":
    main()
