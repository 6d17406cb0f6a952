"""xtr-warp-rs: WARP, which scores by centroids and residual codes alone, on a GPU or a CPU."""

from typing import List, Sequence

import numpy as np
import torch
from xtr_warp import XTRWarp

from documents import Documents

from .system import Answer, Options, System


class XtrWarp(System):
    name = "xtr-warp-rs"
    packages = ("xtr-warp-rs", "torch")
    builds = ({"nbits": 4}, {"nbits": 2})
    uses_gpu = True

    @classmethod
    def searches(cls, build: Options, k: int) -> List[Options]:
        # The library derives all other parameters from the index and from k. With the last setting it considers every
        # candidate.
        widest = {"centroid_score_threshold": 0.0, "bound": 2048, "max_candidates": 1_000_000}
        return [
            {},
            {"nprobe": 16},
            {"nprobe": 32, "t_prime": 100_000},
            {"nprobe": 64, "t_prime": 200_000},
            {"nprobe": 512, "t_prime": 200_000, **widest},
        ]

    def build(self, documents: Documents) -> None:
        matrices = [torch.from_numpy(matrix.astype(np.float32)) for matrix in documents.matrices()]
        self._index().create(matrices, device=self.setup.device, nbits=self.options["nbits"], show_progress=False)

    def open(self) -> None:
        self._opened = self._index().load(device=self.setup.device, mmap=False)

    def search(self, question: np.ndarray, k: int, options: Options) -> Answer:
        return self._ask([question], k, options, 1)[0]

    def search_many(self, questions: Sequence[np.ndarray], k: int, options: Options) -> List[Answer]:
        return self._ask(questions, k, options, self.setup.threads)

    def close(self) -> None:
        self._opened.free()

    def _ask(self, questions: Sequence[np.ndarray], k: int, options: Options, threads: int) -> List[Answer]:
        tensors = [torch.from_numpy(question.astype(np.float32)) for question in questions]
        found = self._opened.search(tensors, top_k=k, num_threads=threads, show_progress=False, **options)
        return [Answer([int(document) for document, _ in ranking]) for ranking in found]

    def _index(self) -> XTRWarp:
        return XTRWarp(str(self.setup.folder / "index"), device=self.setup.device)


SYSTEM = XtrWarp
