"""Encodes the texts of demo/ as MiniLM's hidden states: the training data of the head, and the questions that are kept
for the evaluation."""

import dataclasses
import json
import os
import pathlib
import re
import sys
from typing import Dict, List, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "client" / "python"))
# The model runs in NumPy on small matrices, where several threads would mostly wait for one another.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from maxsim_encoder.encoder import DOCUMENT  # noqa: E402
from maxsim_encoder.loaders.minilm import MiniLm  # noqa: E402


@dataclasses.dataclass(frozen=True)
class States:
    """Hidden states of texts, padded."""

    rows: Tensor  # float32 [texts, tokens, 384], of length 1 each; zeros after the last token of a text
    lengths: Tensor  # int64 [texts]

    def __len__(self) -> int:
        return self.rows.shape[0]


@dataclasses.dataclass(frozen=True)
class Data:
    """Training query i belongs to training document i. Questions and passages are only for the evaluation."""

    queries: States
    documents: States
    questions: States
    passages: States
    question_ids: List[str]
    passage_ids: List[str]
    titles: List[str]  # of the passages
    grades: Dict[str, Dict[str, int]]  # of a question, by passage


def encode(model: MiniLm, texts: Sequence[str]) -> States:
    """Returns the states of texts. Encodes 32 texts of similar length at a time, so that a batch has little padding."""
    order = sorted(range(len(texts)), key=lambda text: len(texts[text]))
    vectors: Dict[int, np.ndarray] = {}
    for begin in range(0, len(order), 32):
        batch = order[begin : begin + 32]
        for text, encoded in zip(batch, model.encode([texts[text] for text in batch], DOCUMENT)):
            vectors[text] = encoded.vectors
    lengths = torch.tensor([len(vectors[text]) for text in range(len(texts))])
    rows = torch.zeros(len(texts), int(lengths.max()), model.columns)
    for text, length in enumerate(lengths.tolist()):
        rows[text, :length] = torch.from_numpy(vectors[text])
    return States(rows, lengths)


def training_pairs(passages: Sequence[dict]) -> List[Tuple[str, str]]:
    """Makes pairs of a text that stands for a question and a text that answers it: a passage's title and the passage,
    and a passage's last sentence and its rest."""
    pairs = [(passage["title"], passage["text"]) for passage in passages]
    for passage in passages:
        *rest, last = re.split(r"(?<=[.?!]) +", passage["text"])
        if rest:
            pairs.append((last, f"{passage['title']}. {' '.join(rest)}"))
    return pairs


def load(demo: pathlib.Path) -> Data:
    """Reads a folder with the layout of demo/, and encodes its texts (about 15 seconds of one core for demo/
    itself)."""
    passages = [json.loads(line) for line in (demo / "passages.jsonl").read_text().splitlines()]
    questions = [json.loads(line) for line in (demo / "queries.jsonl").read_text().splitlines()]
    grades: Dict[str, Dict[str, int]] = {}
    for line in (demo / "qrels.tsv").read_text().splitlines():
        question, passage, grade = line.split()
        grades.setdefault(question, {})[passage] = int(grade)
    pairs = training_pairs(passages)
    model = MiniLm(None)
    return Data(
        queries=encode(model, [query for query, _ in pairs]),
        documents=encode(model, [document for _, document in pairs]),
        questions=encode(model, [question["text"] for question in questions]),
        passages=encode(model, [f"{passage['title']}. {passage['text']}" for passage in passages]),
        question_ids=[question["id"] for question in questions],
        passage_ids=[passage["id"] for passage in passages],
        titles=[passage["title"] for passage in passages],
        grades=grades,
    )
