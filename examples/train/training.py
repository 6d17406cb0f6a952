"""Trains a late-interaction head, a linear layer and normalisation, on hidden states that do not change."""

import dataclasses
import math
import time
from typing import Dict, List, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from maxsim_torch import fused_head_scores, maxsim_scores, maxsim_top_k, reference
from states import Data, States

RESULTS = 10  # the depth of nDCG


@dataclasses.dataclass(frozen=True)
class Options:
    dim: int = 16  # columns of the trained vectors
    epochs: int = 8
    batch: int = 50  # queries in a step, which also has as many documents
    candidates: int = 8  # documents of each query in the distillation
    learning_rate: float = 2e-3
    # Scores are divided by this before the softmax turns them into probabilities.
    temperature: float = 0.5
    distillation: float = 1.0  # the weight of the second loss beside that of the first
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Run:
    """The result of one training: the head, the loss of each step, and the nDCG@10 of the held-out questions before the
    training and after each epoch."""

    head: torch.nn.Linear
    losses: List[float]
    ndcg: List[float]
    seconds: float  # of the steps alone


@dataclasses.dataclass(frozen=True)
class Teacher:
    """For each training query, the documents with the best scores by full hidden states, and their scores. The query's
    own document is always among them."""

    lists: Tensor  # int64 [queries, candidates]
    scores: Tensor  # float32 [queries, candidates]


def teach(data: Data, options: Options) -> Teacher:
    """Returns the best documents of each training query by MaxSim over all 384 columns. If a query's own document is
    not among them, it replaces the last one."""
    best = maxsim_top_k(
        data.queries.rows,
        data.documents.rows,
        options.candidates,
        document_lengths=data.documents.lengths,
        query_lengths=data.queries.lengths,
    )
    own = torch.arange(len(data.queries)).unsqueeze(1)
    lists = best.indices.clone()
    missing = ~(lists == own).any(1)
    lists[missing, -1] = own[missing, 0]
    scores = maxsim_scores(
        data.queries.rows,
        data.documents.rows,
        candidates=lists,
        document_lengths=data.documents.lengths,
        query_lengths=data.queries.lengths,
    )
    return Teacher(lists, scores)


def project(head: torch.nn.Linear, states: States) -> Tensor:
    """Returns the vectors [texts, tokens, dim] that the head makes of states, normalised to length 1."""
    return functional.normalize(head(states.rows), dim=-1)


def step_loss(
    head: torch.nn.Linear, data: Data, teacher: Teacher, batch: Tensor, options: Options, plain: bool
) -> Tensor:
    """Returns the loss of a batch of queries [B]: each query should find its own document among those of the batch, and
    its scores should be distributed over the candidates like the teacher's. With `plain`, computes it in PyTorch
    without maxsim_torch."""
    score = reference.fused_head_scores if plain else fused_head_scores
    queries = functional.normalize(head(data.queries.rows[batch]), dim=-1)
    lengths = data.queries.lengths[batch]
    # Documents are passed as hidden states, because this one operator applies the head, normalises and scores.
    in_batch = score(
        queries,
        data.documents.rows[batch],
        head.weight,
        query_lengths=lengths,
        document_lengths=data.documents.lengths[batch],
    )
    contrast = functional.cross_entropy(in_batch / options.temperature, torch.arange(len(batch)))
    lists = teacher.lists[batch]
    student = score(
        queries,
        data.documents.rows[lists],
        head.weight,
        query_lengths=lengths,
        document_lengths=data.documents.lengths[lists],
    )
    distilled = functional.kl_div(
        (student / options.temperature).log_softmax(1),
        (teacher.scores[batch] / options.temperature).softmax(1),
        reduction="batchmean",
    )
    return contrast + options.distillation * distilled


def train(data: Data, teacher: Teacher, options: Options, plain: bool = False) -> Run:
    """Trains a new head. The seed fixes its first weights and the order of the batches."""
    torch.manual_seed(options.seed)
    head = torch.nn.Linear(data.queries.rows.shape[2], options.dim, bias=False)
    optimizer = torch.optim.Adam(head.parameters(), lr=options.learning_rate)
    losses: List[float] = []
    quality = [evaluate(head, data)]
    seconds = 0.0
    for _ in range(options.epochs):
        begin = time.perf_counter()
        for batch in torch.randperm(len(data.queries)).split(options.batch):
            loss = step_loss(head, data, teacher, batch, options, plain)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        seconds += time.perf_counter() - begin
        quality.append(evaluate(head, data))
    return Run(head, losses, quality, seconds)


@torch.no_grad()
def evaluate(head: torch.nn.Linear, data: Data) -> float:
    """Returns the mean nDCG@10 of the held-out questions over all passages."""
    return mean_ndcg(project(head, data.questions), project(head, data.passages), data)


def mean_ndcg(questions: Tensor, passages: Tensor, data: Data) -> float:
    """Returns the mean nDCG@10 of questions [Nq, Lq, d] over passages [Nd, Ld, d]."""
    best = maxsim_top_k(
        questions,
        passages,
        RESULTS,
        query_lengths=data.questions.lengths,
        document_lengths=data.passages.lengths,
    )
    rankings = [[data.passage_ids[passage] for passage in row] for row in best.indices.tolist()]
    return sum(
        ndcg(ranking, data.grades.get(question, {})) for question, ranking in zip(data.question_ids, rankings)
    ) / len(rankings)


def ndcg(ranking: Sequence[str], grades: Dict[str, int]) -> float:
    """Returns nDCG@10 with linear gain, like that of `maxsimctl evaluate`."""
    ideal = sum(_discounted(sorted(grades.values(), reverse=True)))
    return sum(_discounted([grades.get(passage, 0) for passage in ranking])) / ideal if ideal else 0.0


def _discounted(gains: Sequence[int]) -> List[float]:
    return [gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:RESULTS], start=1)]
