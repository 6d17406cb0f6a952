"""TACHIOM: token-aware clusters, a graph of their centroids and product quantisation, on a CPU."""

from typing import List, Sequence

import numpy as np
import tachiom

from documents import Documents, offsets_of

from .system import Answer, Options, System

NO_DOCUMENT = np.iinfo(np.uint32).max  # fills up rows of fewer than k results


class Tachiom(System):
    name = "tachiom"
    packages = ("tachiom",)
    builds = ({},)

    @classmethod
    def searches(cls, build: Options, k: int) -> List[Options]:
        settings = ((20, 500, 0.45), (10, 200, 0.45), (40, 2000, 0.45), (80, 8000, None), (160, 32000, None))
        return [
            {"k_centroids": centroids, "k_docs_to_score": scored, "ef_search": max(30, centroids), "alpha": alpha}
            for centroids, scored, alpha in settings
        ]

    def build(self, documents: Documents) -> None:
        index = tachiom.Tachiom.build_from_arrays(
            np.ascontiguousarray(documents.vectors).view(np.uint16),
            documents.pieces.astype(np.uint32),
            documents.lengths.astype(np.int32),
        )
        index.save(str(self.setup.folder / "index.bin"))

    def open(self) -> None:
        self._opened = tachiom.Tachiom.load(str(self.setup.folder / "index.bin"))

    def search(self, question: np.ndarray, k: int, options: Options) -> Answer:
        _, ids = self._opened.search(np.ascontiguousarray(question, np.float32), k, **options)
        return _answer(ids)

    def search_many(self, questions: Sequence[np.ndarray], k: int, options: Options) -> List[Answer]:
        tokens = np.concatenate(questions).astype(np.float32)
        offsets = offsets_of(np.array([len(question) for question in questions])).astype(np.uint64)
        threads = self.setup.threads
        _, ids = self._opened.batch_search(tokens, len(questions), k, offsets=offsets, num_threads=threads, **options)
        return [_answer(row) for row in ids]


def _answer(ids: np.ndarray) -> Answer:
    return Answer([int(document) for document in ids if document != NO_DOCUMENT])


SYSTEM = Tachiom
