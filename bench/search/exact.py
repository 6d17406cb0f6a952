"""Exact answers in FP64, which recall and proofs are measured against."""

import dataclasses
import pathlib
from typing import Callable, List, Sequence

import numpy as np

from documents import Documents, offsets_of

# Two scores count as equal if they differ by at most this much, because a backend's scores may have such an error
# (docs/internals/correctness.md).
TIE = 1e-5
CHUNK_TOKENS = 50_000
CHUNK_TOKENS_GPU = 400_000

# A Scorer takes the vectors [tokens, dim] of documents and the documents' lengths. It returns the scores [documents,
# questions].
Scorer = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Truth:
    """The best documents of each question, best first. Documents with equal scores are in the order of their numbers.
    `depth` is larger than every k of the benchmark, because documents that score nearly as much as the k-th count as
    correct too."""

    ids: np.ndarray  # int64 [questions, depth]
    scores: np.ndarray  # float64 [questions, depth]

    def __len__(self) -> int:
        return len(self.ids)

    def acceptable(self, question: int, k: int) -> set:
        """Returns the documents that count as correct among the best k: all whose score is at most TIE below the k-th
        best."""
        scores = self.scores[question]
        return set(self.ids[question][scores >= scores[min(k, len(scores)) - 1] - TIE].tolist())

    def save(self, path: pathlib.Path) -> None:
        np.savez(path, ids=self.ids, scores=self.scores)


def load_truth(path: pathlib.Path) -> Truth:
    with np.load(path) as file:
        return Truth(file["ids"], file["scores"])


def numpy_scorer(questions: Sequence[np.ndarray]) -> Scorer:
    tokens = np.concatenate(questions).astype(np.float64).T
    starts = offsets_of(np.array([len(question) for question in questions]))[:-1]

    def score(vectors: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        products = vectors.astype(np.float64) @ tokens
        maxima = np.maximum.reduceat(products, offsets_of(lengths)[:-1], axis=0)
        return np.add.reduceat(maxima, starts, axis=1)

    return score


def torch_scorer(questions: Sequence[np.ndarray], device: str, block: int = 2048) -> Scorer:
    """Returns a scorer that takes `block` question tokens at a time, so that the products of a chunk take 6 GiB."""
    import torch

    tokens = torch.from_numpy(np.concatenate(questions).astype(np.float64)).to(device)
    question_of = torch.repeat_interleave(
        torch.arange(len(questions)), torch.tensor([len(question) for question in questions])
    ).to(device)

    def score(vectors: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        documents = torch.from_numpy(np.array(vectors)).to(device).double()
        rows = torch.from_numpy(np.array(lengths)).to(device)
        scores = torch.zeros((len(lengths), len(questions)), dtype=torch.float64, device=device)
        for begin in range(0, len(tokens), block):
            products = documents @ tokens[begin : begin + block].T
            maxima = torch.segment_reduce(products, "max", lengths=rows, axis=0)
            scores.index_add_(1, question_of[begin : begin + block], maxima)
        return scores.cpu().numpy()

    return score


def chunks(lengths: np.ndarray, tokens: int) -> List[tuple[int, int]]:
    """Cuts documents into ranges. Each range has at least one document, and at most `tokens` tokens if it has
    several."""
    offsets, ranges, begin = offsets_of(lengths), [], 0
    while begin < len(lengths):
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + tokens, side="right")) - 1)
        ranges.append((begin, end))
        begin = end
    return ranges


def top(ids: np.ndarray, scores: np.ndarray, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the `depth` largest scores of each row and their ids, largest first. Of equal scores, the smaller id
    comes first."""
    if scores.shape[1] > depth:
        chosen = np.sort(np.argpartition(-scores, depth - 1, axis=1)[:, :depth], axis=1)
        ids, scores = np.take_along_axis(ids, chosen, 1), np.take_along_axis(scores, chosen, 1)
    by_id = np.argsort(ids, axis=1)
    ids, scores = np.take_along_axis(ids, by_id, 1), np.take_along_axis(scores, by_id, 1)
    order = np.argsort(-scores, axis=1, kind="stable")
    return np.take_along_axis(ids, order, 1), np.take_along_axis(scores, order, 1)


def best_documents(
    documents: Documents,
    questions: Sequence[np.ndarray],
    depth: int,
    device: str | None = None,
    chunk_tokens: int | None = None,
) -> Truth:
    """Scores every document for every question in FP64. `device` is a device of PyTorch; None computes in NumPy."""
    if depth < 1:
        raise ValueError(f"depth {depth}: must be at least 1")
    depth = min(depth, len(documents))
    scorer = numpy_scorer(questions) if device is None else torch_scorer(questions, device)
    is_gpu = device is not None and device.startswith("cuda")
    best_ids = np.empty((len(questions), 0), np.int64)
    best_scores = np.empty((len(questions), 0), np.float64)
    offsets = documents.offsets
    for begin, end in chunks(documents.lengths, chunk_tokens or (CHUNK_TOKENS_GPU if is_gpu else CHUNK_TOKENS)):
        rows = documents.vectors[offsets[begin] : offsets[end]]
        scores = np.concatenate([best_scores, scorer(rows, documents.lengths[begin:end]).T], axis=1)
        new_ids = np.broadcast_to(np.arange(begin, end), (len(questions), end - begin))
        ids = np.concatenate([best_ids, new_ids], axis=1)
        best_ids, best_scores = top(ids, scores, depth)
    if is_gpu:
        import torch

        del scorer
        torch.cuda.empty_cache()  # the measured systems need this memory while this process waits
    return Truth(best_ids, best_scores)
