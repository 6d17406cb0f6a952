"""Measures one setting of a search: recall against the exact answers, correctness of proofs, latency and throughput."""

import time
from typing import Any, Dict, List, Sequence

import numpy as np

from exact import Truth
from systems.system import Answer, System

WARM_UP, SINGLE_WARM_UP = 64, 3  # questions before the clock starts
MIN_BATCH = 32  # questions of one call of search_many
SLOW = 4  # a run ends after this many times `seconds`, even if not all questions were asked


def share(answer: Answer, truth: Truth, question: int, k: int) -> float:
    """Returns the share of the exact top k among the first k documents of an answer. A document whose score is within
    exact.TIE of the k-th best score counts as one of the exact top k."""
    wanted = min(k, truth.ids.shape[1])
    return min(len(set(answer.ids[:k]) & truth.acceptable(question, k)), wanted) / wanted


def recall(answers: Sequence[Answer], truth: Truth, k: int) -> float:
    """Returns the mean of `share` over all answers. Answer i belongs to question i."""
    return float(np.mean([share(answer, truth, question, k) for question, answer in enumerate(answers)]))


def wrong_proofs(answers: Sequence[Answer], truth: Truth, k: int) -> List[int]:
    """Returns the questions whose answer is marked as proven although it is not the exact top k."""
    return [
        question for question, answer in enumerate(answers) if answer.proven and share(answer, truth, question, k) < 1
    ]


def known_item_mrr(answers: Sequence[Answer]) -> float:
    """Returns the mean reciprocal rank, within the best ten, of the document that the question was made from.
    Question i was made from document i."""
    ranks = [list(answer.ids[:10]).index(question) + 1 if question in answer.ids[:10] else 0
             for question, answer in enumerate(answers)]  # fmt: skip
    return float(np.mean([1 / rank if rank else 0 for rank in ranks]))


def refined_percentiles(answers: Sequence[Answer]) -> Dict[str, float]:
    refined = [answer.refined for answer in answers if answer.refined is not None]
    return {f"refined_p{p}": float(np.percentile(refined, p)) for p in (50, 99, 100)} if refined else {}


def measure(
    system: System, questions: Sequence[np.ndarray], truth: Truth, k: int, search: Dict[str, Any], seconds: float
) -> Dict[str, Any]:
    """Asks all questions in large batches, and then single questions one after another, for about `seconds` each. A
    fast system gets the questions several times. A slow system gets SLOW times `seconds` for the batches; the questions
    that are left then are not asked in batches, and "questions" in the row says how many were."""
    begin = time.perf_counter()
    system.search_many(questions[:WARM_UP], k, search)
    rate = len(questions[:WARM_UP]) / (time.perf_counter() - begin)
    batch = min(max(int(rate * seconds), MIN_BATCH), len(questions))
    answers: List[Answer] = []
    asked, begin = 0, time.perf_counter()
    while True:
        first = asked % len(questions)
        found = system.search_many(questions[first : first + batch], k, search)
        answers += found if asked < len(questions) else []
        asked += len(found)
        spent = time.perf_counter() - begin
        if spent >= (seconds if asked >= len(questions) else SLOW * seconds):
            break
    for question in questions[:SINGLE_WARM_UP]:
        system.search(question, k, search)
    latencies: List[float] = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        question = questions[len(latencies) % len(questions)]
        start = time.perf_counter()
        system.search(question, k, search)
        latencies.append(time.perf_counter() - start)
    milliseconds = np.array(latencies) * 1e3
    row = {
        "k": k,
        "questions": len(answers),
        "recall": recall(answers, truth, k),
        "batched_qps": asked / spent,
        "single_qps": float(1e3 / milliseconds.mean()),
        "p50_ms": float(np.median(milliseconds)),
        "p99_ms": float(np.percentile(milliseconds, 99)),
    }
    if k >= 10:
        row["mrr@10"] = known_item_mrr(answers)
    if any(answer.proven is not None for answer in answers):
        row["proven"] = sum(bool(answer.proven) for answer in answers)
        row["wrong_proofs"] = len(wrong_proofs(answers, truth, k))
    return {**row, **refined_percentiles(answers)}
