#!/usr/bin/env python3
"""Asks a maxsimd that serves the pages of build.py: for each question, the best page of each of the best documents.

    python examples/pages/ask.py --questions build/pages/pages.questions.jsonl

For the best page it also prints where it matches: the patch of each of the question's best words.
"""

from __future__ import annotations

import argparse
import base64
import json
import pathlib
import sys
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "client" / "python"))  # unless it is installed

from maxsim import Client, Document

MATCHES = 3  # words of the question that are shown with their patches


def matrix(query: Dict[str, Any]) -> Any:
    """Returns the vectors of a recorded question, float16 [tokens, dim]."""
    return np.frombuffer(base64.b64decode(query["data"]), np.float16).reshape(query["shape"])


def patch(grid: Dict[str, int], vector: int) -> Optional[Tuple[int, int]]:
    """Returns the row and the column, counted from 1, of the patch that has this vector. Returns None for a vector that
    belongs to no patch. `vector` is its number in the document, counted from 0."""
    index = vector - grid["first"]
    if not 0 <= index < grid["rows"] * grid["columns"]:
        return None
    row, column = divmod(index, grid["columns"])
    return row + 1, column + 1


def matches(page: Document, tokens: List[str]) -> List[str]:
    """Returns the MATCHES words of the question that match the page best, each with its similarity and its patch, as
    texts. `tokens` are all words of the question."""
    assert page.matches is not None and page.similarities is not None
    found = []
    for token in np.argsort(-page.similarities):
        where = patch(page.payload["grid"], int(page.matches[token]))
        if where is not None:
            found.append(f"{tokens[token]} {page.similarities[token]:.2f} in row {where[0]}, column {where[1]}")
    return found[:MATCHES]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="localhost:7070", help="address of maxsimd (default: %(default)s)")
    parser.add_argument("--questions", type=pathlib.Path, required=True, metavar="FILE", help="written by build.py")
    parser.add_argument("--top-k", type=int, default=3, metavar="N", help="number of documents per answer (default: 3)")
    options = parser.parse_args()
    questions = [json.loads(line) for line in options.questions.read_text(encoding="utf-8").splitlines()]
    right_documents = right_pages = 0
    with Client(options.server) as client:
        for question in questions:
            # Pages with the same value of the field `document` are a group. The answer has the best page of each. Naming
            # the members of the payload leaves out the image, which is most of it.
            ranking = client.rerank(
                "pages", matrix(question["query"]), group_by="document", top_k=options.top_k, alignments=True,
                payload_fields=["page", "grid"],
            )  # fmt: skip
            print(question["text"])
            for rank, page in enumerate(ranking, start=1):
                print(f"  {rank}. {page.group}, page {page.payload['page']}: {page.score:.4f}")
            print(f"     {'; '.join(matches(ranking[0], question['tokens']))}")
            right_documents += ranking[0].group in {answer.rsplit("-", 1)[0] for answer in question["answers"]}
            right_pages += ranking[0].id in question["answers"]
    print(f"{len(questions)} questions: {right_documents} have their document first, {right_pages} also the right page")
    return 0


if __name__ == "__main__":
    sys.exit(main())
