"""The engine that scores in an actor: a maxsimd of its own, over a Unix socket, or the library in the actor's process.

Both give the same scores to the bit where they compute with the same instruction set. Neither knows of Ray.
"""

from __future__ import annotations

import atexit
import collections
import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from manifests import Collection, Id, InputError

LOAD_LIMIT_S = 1800  # for a server to read its collection
CALL_LIMIT_S = 600  # for the answer to one query, including its wait in the server
CALLS_IN_FLIGHT = 32  # enough to keep a GPU busy, because the server batches waiting queries
MAX_TOP_K = 10_000  # of one request of maxsimd
LIBRARY_DOCUMENTS = 100_000  # scored at once by the library, so that scores of many queries fit into memory


class ScoringError(Exception):
    """An engine did not start, or did not answer."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """Documents of one query, best first: ids, scores as float32 [documents], and positions as int64 [documents], which
    are the indices of the ids in the list that was given or, of the whole collection, the documents' ordinals."""

    ids: list[Id]
    scores: npt.NDArray[np.float32]
    positions: npt.NDArray[np.int64]


class Engine(Protocol):
    """Scores queries, each an array [tokens, dim], over the documents of one collection."""

    def score(self, queries: Sequence[npt.NDArray[Any]], ids: Sequence[Sequence[Id]]) -> list[Answer]:
        """Scores each query with all ids of its own list, which must not repeat an id. Returns an answer for each
        query."""

    def top_k(self, queries: Sequence[npt.NDArray[Any]], k: int) -> list[Answer]:
        """Returns the best `k` documents of the whole collection for each query."""

    def close(self) -> None: ...


# Shell command that removes the folder "$0" once no process has the other end of the shell's standard input open.
JANITOR = 'exec 3<&0; { cat <&3 >/dev/null; rm -rf -- "$0"; } &'


class ServerEngine:
    """A maxsimd that serves one collection to this process alone. It ends when this process ends."""

    def __init__(self, collection: Collection, program: str, threads: int, flags: Sequence[str]) -> None:
        from maxsim import Client

        self._collection = collection.name
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="maxsim-ray-"))  # A socket's path has 107 bytes at most.
        atexit.register(self.close)
        socket, ports = self._folder / "grpc.sock", self._folder / "ports.json"
        wanted = {
            "collection": f"{collection.name}={collection.folder}",
            "grpc.unix_socket": socket,
            "grpc.address": "127.0.0.1:0",
            "http.address": "",
            "server.port_file": ports,
            "server.shutdown_delay": "0s",
            "backend.cpu_threads": threads,
            "batching.max_queue_time": 0,  # No caller waits for a single answer here.
            "log.level": "warn",
        }
        # Ray kills actors at the end of a run, so they cannot stop the server. setpriv makes the kernel kill the server
        # when the thread that started it ends.
        command = ["setpriv", "--pdeathsig", "KILL", program]
        command += [part for name, value in wanted.items() for part in (f"--{name}", str(value))]
        command += [f"--{flag}" for flag in flags]
        end_of_server, held_by_server = os.pipe()
        with open(self._folder / "log", "w+b") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, pass_fds=[held_by_server]
            )
            os.close(held_by_server)
            janitor = ["sh", "-c", JANITOR, str(self._folder)]
            subprocess.run(janitor, stdin=end_of_server, stdout=log, stderr=log, start_new_session=True, check=True)
            os.close(end_of_server)
            limit = time.monotonic() + LOAD_LIMIT_S
            while not ports.exists() or not ports.read_text():
                if self._process.poll() is not None or time.monotonic() > limit:
                    self.close()
                    log.seek(0)
                    problem = log.read().decode(errors="replace").strip()
                    raise ScoringError(f"maxsimd does not serve {collection.folder}: {problem[-2000:]}")
                time.sleep(0.02)
        self._client = Client(f"unix:{socket}")

    def score(self, queries: Sequence[npt.NDArray[Any]], ids: Sequence[Sequence[Id]]) -> list[Answer]:
        parts = [
            (query, listed[begin : begin + MAX_TOP_K], begin)
            for query, listed in zip(queries, ids)
            for begin in range(0, len(listed), MAX_TOP_K)
        ]
        answers = self._ask([(query, listed, len(listed)) for query, listed, _ in parts])
        joined = []
        for listed in ids:
            of_query = [(next(answers), begin) for begin in range(0, len(listed), MAX_TOP_K)]
            joined.append(join([dataclasses.replace(a, positions=a.positions + begin) for a, begin in of_query]))
        return joined

    def top_k(self, queries: Sequence[npt.NDArray[Any]], k: int) -> list[Answer]:
        return list(self._ask([(query, None, k) for query in queries]))

    def _ask(self, calls: Sequence[tuple[npt.NDArray[Any], Sequence[Id] | None, int]]) -> Iterator[Answer]:
        """`calls` are (query, ids or None for the whole collection, top k). Yields their answers in the same order."""
        from maxsim import Request

        waiting: collections.deque[Any] = collections.deque()
        for query, ids, k in calls:
            if len(waiting) == CALLS_IN_FLIGHT:
                yield self._answer(waiting.popleft())
            request = Request(self._collection, query, ids, top_k=k, missing_policy="fail").to_message()
            waiting.append(self._client.reranker.Rerank.future(request, timeout=CALL_LIMIT_S))
        while waiting:
            yield self._answer(waiting.popleft())

    def _answer(self, call: Any) -> Answer:
        import grpc

        try:
            result = call.result().results[0]
        except grpc.RpcError as error:
            ended = f" (it has ended with {self._process.returncode})" if self._process.poll() is not None else ""
            raise ScoringError(f"maxsimd{ended}: {error.code().name}: {error.details()}") from None
        kind = result.WhichOneof("ids")
        ids = result.int_ids.ids if kind == "int_ids" else result.string_ids.ids
        return Answer(list(ids), np.array(result.scores, np.float32), np.array(result.positions, np.int64))

    def close(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None and process.poll() is None:
            process.kill()  # It has written nothing that would be lost.
            process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class LibraryEngine:
    """maxsim_torch over the shards of a collection, which it holds on one device ("cpu" or "cuda")."""

    def __init__(self, collection: Collection, device: str, threads: int) -> None:
        import torch
        from safetensors import safe_open

        if collection.storage == "i8":
            raise InputError(f"{collection.folder}: storage is i8, whose queries a server rotates: use --engine server")
        self._torch = torch
        self._device = device
        torch.set_num_threads(threads)
        self._shards: list[tuple[Any, Any]] = []  # tokens [T, dim], offsets [N + 1]
        self._ids: list[Id] = []
        self._firsts = [0]  # number of each shard's first document, then the number of all documents
        ordinals = []
        for name in collection.shards:
            with safe_open(str(collection.folder / name), framework="pt", device=device) as shard:
                offsets = shard.get_tensor("offsets")
                self._shards.append((shard.get_tensor("tokens"), offsets))
                self._ids += _read_ids(shard)
                if "ordinals" in shard.keys():  # of a partition: the numbers in the collection that was cut
                    ordinals.append(shard.get_tensor("ordinals").cpu().numpy())
            self._firsts.append(self._firsts[-1] + len(offsets) - 1)
        self._ordinals = np.concatenate(ordinals) if ordinals else np.arange(len(self._ids))
        self._numbers = {id: number for number, id in enumerate(self._ids)}

    def score(self, queries: Sequence[npt.NDArray[Any]], ids: Sequence[Sequence[Id]]) -> list[Answer]:
        unknown = [id for listed in ids for id in listed if id not in self._numbers]
        if unknown:
            raise ScoringError(f"{len(unknown)} of the ids are not in the collection, the first is {unknown[0]!r}")
        numbers = [np.array([self._numbers[id] for id in listed], np.int64) for listed in ids]
        scores = [np.zeros(len(listed), np.float32) for listed in ids]
        for (tokens, offsets), first, end in zip(self._shards, self._firsts, self._firsts[1:]):
            places = [np.flatnonzero((first <= mine) & (mine < end)) for mine in numbers]
            longest = max(map(len, places), default=0)
            if longest == 0:
                continue
            # Shorter lists are filled up with document 0, whose scores are ignored.
            lists = np.zeros((len(queries), longest), np.int64)
            for row, (place, mine) in enumerate(zip(places, numbers)):
                lists[row, : len(place)] = mine[place] - first
            lists_there = self._torch.from_numpy(lists).to(self._device)
            found = self._maxsim(queries, tokens, offsets, lists_there).cpu().numpy()
            for row, place in enumerate(places):
                scores[row][place] = found[row, : len(place)]
        return [best_first(list(ids[row]), scores[row], np.arange(len(ids[row]))) for row in range(len(queries))]

    def top_k(self, queries: Sequence[npt.NDArray[Any]], k: int) -> list[Answer]:
        best: list[list[Answer]] = [[] for _ in queries]
        for (tokens, offsets), first in zip(self._shards, self._firsts):
            for begin in range(0, len(offsets) - 1, LIBRARY_DOCUMENTS):
                some = offsets[begin : begin + LIBRARY_DOCUMENTS + 1]
                scores = self._maxsim(queries, tokens, some, None)
                # torch.topk returns any of several documents with equal scores. So its last score is only a bound: all
                # documents that reach it are sorted here by score and then position.
                least = self._torch.topk(scores, min(k, scores.shape[1])).values[:, -1:]
                for row, mask in enumerate(scores >= least):
                    reached = mask.nonzero()[:, 0]
                    numbers = reached.cpu().numpy() + first + begin
                    values = scores[row, reached].cpu().numpy()
                    ids = [self._ids[number] for number in numbers]
                    best[row].append(best_first(ids, values, self._ordinals[numbers], k))
        return [join(answers, k) for answers in best]

    def _maxsim(self, queries: Sequence[npt.NDArray[Any]], tokens: Any, offsets: Any, candidates: Any) -> Any:
        """Returns scores as float32 [queries, documents] or, if candidates are given, [queries, candidates]."""
        from maxsim_torch import maxsim_scores_packed

        torch = self._torch
        lengths = torch.tensor([len(query) for query in queries])
        padded = torch.zeros((len(queries), int(lengths.max()), tokens.shape[1]), dtype=tokens.dtype)
        for row, query in enumerate(queries):
            padded[row, : len(query)] = torch.from_numpy(np.array(query)).to(tokens.dtype)
        padded, lengths = padded.to(self._device), lengths.to(self._device)
        return maxsim_scores_packed(padded, tokens, offsets, query_lengths=lengths, candidates=candidates)

    def close(self) -> None:
        self._shards.clear()


def _read_ids(shard: Any) -> list[Id]:
    """Returns the ids of an open shard file (docs/reference/formats.md)."""
    if "ids" in shard.keys():
        return [int(id) for id in shard.get_tensor("ids").cpu().tolist()]
    ends = shard.get_tensor("id_offsets").cpu().tolist()
    text = shard.get_tensor("id_bytes").cpu().numpy().tobytes()
    return [text[begin:end].decode() for begin, end in zip(ends, ends[1:])]


def best_first(ids: list[Id], scores: npt.NDArray[Any], positions: npt.NDArray[Any], k: int | None = None) -> Answer:
    """Returns the best `k` (None: all) in the rank order of a server: score descending, then position ascending
    (-0 equals 0)."""
    order = np.lexsort((positions, -scores))[:k]
    return Answer([ids[i] for i in order], scores[order], positions[order])


def join(answers: Sequence[Answer], k: int | None = None) -> Answer:
    """Joins the answers of several parts of the documents to one query. Returns the best `k` (None: all) of their
    documents."""
    if not answers:
        return Answer([], np.zeros(0, np.float32), np.zeros(0, np.int64))
    ids = [id for answer in answers for id in answer.ids]
    scores = np.concatenate([answer.scores for answer in answers])
    return best_first(ids, scores, np.concatenate([answer.positions for answer in answers]), k)
