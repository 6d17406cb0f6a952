"""fast-plaid: centroids, residual codes and inverted lists, on a GPU or a CPU."""

from typing import List, Sequence

import numpy as np
import torch
from fast_plaid import search as fast_plaid

from documents import Documents

from .system import Answer, Options, System


class FastPlaid(System):
    name = "fast-plaid"
    packages = ("fast-plaid", "torch")
    builds = ({"nbits": 4}, {"nbits": 2})
    uses_gpu = True

    @classmethod
    def searches(cls, build: Options, k: int) -> List[Options]:
        pairs = ((8, 4096), (2, 1024), (32, 4096), (32, 16384), (128, 65536))
        return [{"n_ivf_probe": probes, "n_full_scores": scores} for probes, scores in pairs]

    def build(self, documents: Documents) -> None:
        matrices = [torch.from_numpy(np.array(matrix)) for matrix in documents.matrices()]
        self._index().create(documents_embeddings=matrices, nbits=self.options["nbits"])

    def open(self) -> None:
        self._opened = self._index()

    def search(self, question: np.ndarray, k: int, options: Options) -> Answer:
        return self.search_many([question], k, options)[0]

    def search_many(self, questions: Sequence[np.ndarray], k: int, options: Options) -> List[Answer]:
        tensors = [torch.from_numpy(question.astype(np.float32)) for question in questions]
        found = self._opened.search(queries_embeddings=tensors, top_k=k, show_progress=False, **options)
        return [Answer([int(document) for document, _ in ranking]) for ranking in found]

    def _index(self) -> fast_plaid.FastPlaid:
        device = "cuda:0" if self.setup.device == "cuda" else "cpu"
        return fast_plaid.FastPlaid(index=str(self.setup.folder / "index"), device=device)


SYSTEM = FastPlaid
