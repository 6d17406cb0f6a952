"""maxsimd: exact scoring of the whole collection, or of the documents that a scan of codes chose."""

import concurrent.futures
import pathlib
import sys
from typing import Dict, List, Sequence

import numpy as np

from documents import Documents

from .system import Answer, Options, System, folder_bytes

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(REPOSITORY / "bench" / "serving" / "cases"))

from servers import Maxsimd as Server  # noqa: E402
from servers import run_shard  # noqa: E402
from maxsim import Client, token_matrix  # noqa: E402
from maxsim.v1 import rerank_pb2  # noqa: E402

NAME = "documents"  # of the collection
CLIENTS, QUESTIONS_PER_REQUEST = 8, 32  # of search_many
PROOF_BUDGET = 1 << 16  # documents that a proof may score
START_SECONDS = 600
# Lifts the limits of the queue, so that up to CLIENTS requests over the whole collection may wait at the same time.
KEYS = {"batching.max_queue_work": 1 << 42, "batching.max_queue_time": "0s"}


class Maxsimd(System):
    name = "maxsimd"
    packages = ()
    builds = tuple({"storage": storage, "codes": codes} for storage, codes in
                   (("f16", 0), ("i8", 0), ("f16", 1), ("f16", 2), ("f16", 4), ("i8", 1), ("i8", 4)))  # fmt: skip
    uses_gpu = True

    @classmethod
    def searches(cls, build: Options, k: int) -> List[Options]:
        if not build["codes"]:
            return [{}]
        # `documents` is how many documents per query the server scores exactly. With 0 it takes its default of 1,000 +
        # 20 * k, where k is the number of results.
        settings: List[Options] = [{"documents": documents} for documents in (0, 100, 300, 1000, 10_000)]
        if build["codes"] == 4:
            settings.append({"documents": 0, "require_proof": True, "budget": PROOF_BUDGET})
        return settings

    def build(self, documents: Documents) -> None:
        if documents.folder is None:
            raise ValueError("maxsim-shard reads files: these documents are in no folder")
        run_shard(
            self.setup.programs, "build", "--tokens", documents.folder / "tokens.npy",
            "--lengths", documents.folder / "lengths.npy", "--output", self._collection, "--name", NAME,
            "--storage", self.options["storage"], "--quiet",
        )  # fmt: skip
        if self.options["codes"]:
            run_shard(self.setup.programs, "encode", self._collection, "--codes", self.options["codes"], "--quiet")

    def open(self) -> None:
        self._server = Server(self.setup.programs, self.setup.folder, "server", {NAME: self._collection}, "auto",
                              KEYS, START_SECONDS, True)  # fmt: skip
        try:
            self._clients = [Client(self._server.unix_target) for _ in range(CLIENTS)]
            self._pool = concurrent.futures.ThreadPoolExecutor(CLIENTS)
            if self.options["codes"]:
                self._check_codes()
        except BaseException:
            self._server.stop()
            raise

    def search(self, question: np.ndarray, k: int, options: Options) -> Answer:
        return self._ask(self._clients[0], self._request([question], k, options))[0]

    def search_many(self, questions: Sequence[np.ndarray], k: int, options: Options) -> List[Answer]:
        starts = range(0, len(questions), QUESTIONS_PER_REQUEST)
        requests = [self._request(questions[begin : begin + QUESTIONS_PER_REQUEST], k, options) for begin in starts]

        def ask_share(number: int) -> List[List[Answer]]:
            return [self._ask(self._clients[number], request) for request in requests[number::CLIENTS]]

        answers: List[List[Answer]] = [[] for _ in requests]
        for number, share in enumerate(self._pool.map(ask_share, range(CLIENTS))):
            answers[number::CLIENTS] = share
        return [answer for some in answers for answer in some]

    def num_bytes(self) -> Dict[str, int]:
        codes = sum(path.stat().st_size for path in self._collection.glob("codes-*"))
        index = folder_bytes(self._collection)
        return {"index": index, "read": codes or index}

    def close(self) -> None:
        self._pool.shutdown()
        for client in self._clients:
            client.close()
        self._server.stop()

    @property
    def _collection(self) -> pathlib.Path:
        return self.setup.folder / "collection"

    def _check_codes(self) -> None:
        [served] = self._clients[0].info().collections
        if served.code_planes != self.options["codes"]:
            raise RuntimeError(f"maxsimd loaded {served.code_planes} planes of codes, not {self.options['codes']}")

    def _request(self, questions: Sequence[np.ndarray], k: int, options: Options) -> rerank_pb2.RerankRequest:
        message = rerank_pb2.RerankRequest(collection=NAME, top_k=k)
        message.candidates.whole_collection.SetInParent()
        for question in questions:
            message.queries.add(tokens=token_matrix(question))
        if options:
            message.refinement.SetInParent()
            for name, value in options.items():
                # Fewer documents than results are refused.
                setattr(message.refinement, name, max(value, k) if name == "documents" and value else value)
        return message

    @staticmethod
    def _ask(client: Client, request: rerank_pb2.RerankRequest) -> List[Answer]:
        return [_answer(result) for result in client.reranker.Rerank(request).results]


def _answer(result: rerank_pb2.QueryResult) -> Answer:
    ids = list(result.positions)
    if not result.HasField("refinement"):
        return Answer(ids)
    refinement = result.refinement
    return Answer(ids, refinement.certificate == rerank_pb2.CERTIFICATE_PROVEN, refinement.documents)


SYSTEM = Maxsimd
