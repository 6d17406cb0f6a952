"""The common parts of this folder's programs: the data, its pooled vectors, and the table that each prints."""

import argparse
import dataclasses
import json
import math
import pathlib
import statistics
import time
from typing import Callable, Dict, List, Sequence, Tuple

import numpy as np

RESULTS = 10  # number of documents in an answer, and the depth of nDCG


@dataclasses.dataclass(frozen=True)
class Question:
    id: str
    text: str
    tokens: np.ndarray  # [tokens, dim]
    pooled: np.ndarray  # [dim], float32


@dataclasses.dataclass(frozen=True)
class Data:
    ids: List[str]
    texts: List[str]  # title and text of each document
    tokens: List[np.ndarray]  # [tokens, dim] for each document
    pooled: np.ndarray  # [documents, dim], float32
    questions: List[Question]
    grades: Dict[str, Dict[str, int]]  # by question and document


def arguments(description: str) -> argparse.Namespace:
    return argument_parser(description).parse_args()


def argument_parser(description: str, http: bool = False) -> argparse.ArgumentParser:
    """Returns a parser of the options that all programs have. With `http`, maxsimd's address is a URL, `--url`."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    if http:
        parser.add_argument("--url", default="http://localhost:7071", help="of maxsimd (default: %(default)s)")
    else:
        parser.add_argument("--server", default="localhost:7070", help="address of maxsimd (default: %(default)s)")
    parser.add_argument("--collection", default="demo", help="what maxsimd calls the documents (default: %(default)s)")
    parser.add_argument("--data", type=pathlib.Path, default="demo", help="their folder (default: %(default)s)")
    parser.add_argument("--candidates", type=int, default=50, help="ids per question for maxsimd (default: %(default)s)")
    return parser


def add_engine_options(parser: argparse.ArgumentParser, engine: str) -> None:
    """Adds the options of programs whose engine calls maxsimd itself."""
    parser.add_argument("--url", default="http://localhost:7071", help="of maxsimd's HTTP API (default: %(default)s)")
    parser.add_argument("--program-only", action="store_true", help=f"do not let {engine} call maxsimd")


def read_data(folder: pathlib.Path) -> Data:
    """Reads a folder with the layout of demo/. Its documents are in passages.jsonl or docs.jsonl."""
    names = [folder / name for name in ("passages.jsonl", "docs.jsonl")]
    documents = _read_lines(next((name for name in names if name.exists()), names[0]))
    tokens = _read_tokens(folder / "tokens.npy", folder / "lengths.npy")
    questions = zip(
        _read_lines(folder / "queries.jsonl"), _read_tokens(folder / "query_tokens.npy", folder / "query_lengths.npy")
    )
    grades: Dict[str, Dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text().splitlines():
        question, document, grade = line.split()
        grades.setdefault(question, {})[document] = int(grade)
    return Data(
        ids=[document["id"] for document in documents],
        texts=[". ".join(filter(None, (document.get("title"), document["text"]))) for document in documents],
        tokens=tokens,
        pooled=np.stack([pool(matrix) for matrix in tokens]),
        questions=[Question(line["id"], line["text"], matrix, pool(matrix)) for line, matrix in questions],
        grades=grades,
    )


def pool(tokens: np.ndarray) -> np.ndarray:
    """Returns the mean of a token matrix, normalised to length 1. It replaces the vector of a single-vector model."""
    mean = tokens.astype(np.float32).mean(axis=0)
    return mean / np.linalg.norm(mean)


def report(
    data: Data,
    candidates: int,
    first: Tuple[str, Callable[[Question, int], List[str]]],
    rerankers: Dict[str, Callable[[Question, List[str]], List[str]]],
) -> None:
    """Asks the first stage all questions, passes the ids that it finds to each reranker, and prints a line for each:
    its name, the mean nDCG@10, and the median time of a call. Makes one call at a time."""
    name, search = first
    found, milliseconds = _timed(lambda question: search(question, candidates), data.questions)
    lines = [(name, found, milliseconds)]
    for name, rerank in rerankers.items():
        ids_of = dict(zip((question.id for question in data.questions), found))

        def ask(question: Question) -> List[str]:
            ids = ids_of[question.id]
            return rerank(question, ids) if ids else []

        lines.append((name, *_timed(ask, data.questions)))

    print(f"{len(data.ids)} documents, {len(data.questions)} questions, {candidates} candidates each\n")
    print(f"{'':28}{'nDCG@10':>8}{'median ms':>12}")
    for name, rankings, milliseconds in lines:
        quality = statistics.mean(
            ndcg(ranking, data.grades.get(question.id, {})) for question, ranking in zip(data.questions, rankings)
        )
        print(f"{name:28}{quality:8.4f}{milliseconds:12.2f}")


def ndcg(ranking: Sequence[str], grades: Dict[str, int]) -> float:
    """Returns nDCG@10 with linear gain, like that of `maxsimctl evaluate`."""
    ideal = sum(_discounted(sorted(grades.values(), reverse=True)))
    return sum(_discounted([grades.get(document, 0) for document in ranking])) / ideal if ideal else 0.0


def _discounted(gains: Sequence[int]) -> List[float]:
    return [gain / math.log2(rank + 1) for rank, gain in enumerate(gains[:RESULTS], start=1)]


def _timed(ask: Callable[[Question], List[str]], questions: Sequence[Question]) -> Tuple[List[List[str]], float]:
    ask(questions[0])  # opens connections and fills caches
    rankings, times = [], []
    for question in questions:
        begin = time.perf_counter()
        rankings.append(ask(question))
        times.append(time.perf_counter() - begin)
    return rankings, statistics.median(times) * 1000


def _read_lines(path: pathlib.Path) -> List[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _read_tokens(tokens: pathlib.Path, lengths: pathlib.Path) -> List[np.ndarray]:
    return np.split(np.load(tokens), np.cumsum(np.load(lengths))[:-1])
