"""The collections that the cases use. They are made from a seed, and by maxsim-shard as a user would make them."""

import concurrent.futures
import dataclasses
import os
import pathlib

import numpy as np

from servers import run_shard

BLOCK_ROWS = 1 << 16
SHARDS = 16  # of the collections many-*, about


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of everything there is."""

    dim: int
    passages: int  # documents of passage_tokens tokens
    passage_tokens: int
    ragged_tokens: tuple[int, int, int]  # for `passages` documents: the shortest, mean and longest length
    shard: int  # documents of the small collection, which have passage_tokens tokens too
    page_tokens: int  # the same token vectors cut into longer documents, for host memory
    list_tokens: int
    candidates: int  # of a list
    query_tokens: int
    seconds: float  # of measuring a case
    warmup: float
    overload_seconds: float
    soak_seconds: float
    reload_seconds: float
    start_copies: int  # times that the large collection is loaded to time a start
    concurrency: int  # a concurrency that saturates the server
    baseline_processes: int  # the baseline is also measured with this many processes

    @property
    def rows(self):
        return self.passages * self.passage_tokens


SCALES = {
    "full": Scale(
        dim=128, passages=100_000, passage_tokens=180, ragged_tokens=(8, 121, 512), shard=1024, page_tokens=1024,
        list_tokens=300, candidates=1000, query_tokens=32, seconds=6, warmup=2, overload_seconds=60, soak_seconds=45, reload_seconds=20,
        start_copies=10, concurrency=384, baseline_processes=6,
    ),
    "small": Scale(
        dim=32, passages=600, passage_tokens=9, ragged_tokens=(1, 9, 40), shard=64, page_tokens=64, list_tokens=20,
        candidates=50, query_tokens=8, seconds=0.3, warmup=0.1, overload_seconds=0.5, soak_seconds=1.5, reload_seconds=0.5,
        start_copies=2, concurrency=8, baseline_processes=2,
    ),
}  # fmt: skip


def _fill(path, rows, dim, seed, threads):
    """Writes [rows, dim] normalised f16 vectors. The same seed gives the same vectors, whatever the number of
    threads."""
    tokens = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(rows, dim))

    def block(begin):
        values = np.random.default_rng((seed, begin)).standard_normal((min(BLOCK_ROWS, rows - begin), dim), np.float32)
        values /= np.sqrt(np.einsum("ij,ij->i", values, values))[:, None]
        tokens[begin : begin + len(values)] = values

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        list(pool.map(block, range(0, rows, BLOCK_ROWS)))
    tokens.flush()


def write_int8_vectors(folder, documents, tokens, dim, random):
    """Writes tokens.npy, scales.npy and lengths.npy of random INT8 vectors, for build_collection. Each document has
    `tokens` vectors."""
    rows = documents * tokens
    vectors = np.lib.format.open_memmap(folder / "tokens.npy", "w+", np.int8, (rows, dim))
    for begin in range(0, rows, BLOCK_ROWS):
        block = vectors[begin : begin + BLOCK_ROWS]
        block[:] = random.integers(-127, 128, block.shape, np.int8)
    del vectors
    np.save(folder / "scales.npy", np.full(rows, 1 / (73 * dim**0.5), np.float32))
    np.save(folder / "lengths.npy", np.full(documents, tokens, np.int32))


def _equal_lengths(rows, tokens):
    lengths = np.full(-(-rows // tokens), tokens, np.int64)
    lengths[-1] -= lengths.sum() - rows
    return lengths


def _passage_lengths(count, shortest, mean, longest, seed):
    """Returns lengths like those of web passages, which are log-normal."""
    deviation = 0.62
    drawn = np.random.default_rng(seed).lognormal(np.log(mean) - deviation**2 / 2, deviation, count)
    return np.clip(np.rint(drawn), shortest, longest).astype(np.int64)


class Data:
    """Makes collections below a folder when they are first used. Uses a collection that is already there if it has
    the same scale."""

    def __init__(self, folder, binaries, scale_name, seed=1, threads=None):
        self.scale = SCALES[scale_name]
        self.folder = pathlib.Path(folder) / f"{scale_name}-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.binaries = binaries
        self.seed = seed
        self.threads = threads or os.cpu_count() or 1

    def _tokens(self, rows):
        path = self.folder / f"tokens-{rows}.npy"
        if not path.exists():
            unfinished = path.with_suffix(".part.npy")
            _fill(unfinished, rows, self.scale.dim, self.seed, self.threads)
            unfinished.rename(path)
        return path

    def _lengths(self, kind):
        """Returns the number of tokens of each document."""
        scale = self.scale
        if kind == "ragged":
            return _passage_lengths(scale.passages, *scale.ragged_tokens, self.seed)
        rows = scale.shard * scale.passage_tokens if kind == "shard" else scale.rows
        tokens = {
            "passages": scale.passage_tokens,
            "many": scale.passage_tokens,
            "shard": scale.passage_tokens,
            "pages": scale.page_tokens,
            "lists": scale.list_tokens,
        }[kind]
        return _equal_lengths(rows, tokens)

    def num_documents(self, name):
        return len(self._lengths(name.partition("-")[0]))

    def collection(self, name):
        """Returns the folder of a collection: passages-f16, passages-i8, ragged-f16, many-f16, shard-f16, pages-f16,
        pages-i8 or lists-f16."""
        folder = self.folder / name
        if (folder / "collection.json").exists():
            return folder
        kind, _, storage = name.partition("-")
        if storage == "i8":
            source = self.collection(f"{kind}-f16")
            run_shard(self.binaries, "quantize", source, folder, "--no-comparison", "--quiet", "--name", name)
        else:
            lengths = self._lengths(kind)
            rows = int(lengths.sum())
            path = self.folder / f"{name}.lengths.npy"
            np.save(path, lengths)
            # A collection has one shard, so that a request is one call of the backend. Only "many" has several shards,
            # to be spread over devices.
            most = rows * self.scale.dim * 2 // SHARDS if kind == "many" else 16 << 30
            run_shard(self.binaries, "build", "--tokens", self._tokens(rows), "--lengths", path, "--output", folder,
                      "--name", name, "--max-shard-bytes", max(most, 1 << 20), "--quiet")  # fmt: skip
        return folder

    def publish_again(self, name):
        """Makes the next generation of a collection, with the same documents."""
        lengths = self.folder / f"{name}.lengths.npy"
        rows = int(np.load(lengths).sum())
        run_shard(self.binaries, "build", "--tokens", self._tokens(rows), "--lengths", lengths,
                  "--output", self.folder / name, "--name", name, "--quiet")  # fmt: skip

    def make(self, names):
        """Makes several collections at the same time, because each build has only one thread that reads and hashes."""
        f16 = sorted({name.replace("-i8", "-f16") for name in names})
        for rows in {int(self._lengths(name.partition("-")[0]).sum()) for name in names}:
            self._tokens(rows)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(self.collection, f16))
            list(pool.map(self.collection, sorted(set(names) - set(f16))))

    def num_bytes(self, name):
        return sum(path.stat().st_size for path in self.collection(name).glob("*.safetensors"))
