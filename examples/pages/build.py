#!/usr/bin/env python3
"""Builds a collection of pages from their images alone: 30 documents of 5 pages, 1,030 vectors per page.

    python examples/pages/build.py --output build/pages/pages

The texts are the bundled passages. Those of one subject are the pages of one document, and each page is drawn as an
image. Also writes OUTPUT.questions.jsonl: the bundled questions with the page that answers each, for ask.py and the
console. The encoder is a stand-in for a vision-language model: page_encoder.py says what it can do.
"""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import json
import os
import pathlib
import sys
from typing import Any, Dict, List, Optional, Tuple

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DEMO = REPOSITORY / "demo"
sys.path.append(str(REPOSITORY / "client" / "python"))  # unless the package maxsim is installed

import numpy as np
from maxsim.collection import CollectionWriter

from draw import data_url, draw_page
from page_encoder import DIM, GRID, NUM_VECTORS, PageEncoder, PageError, Word, read_words


def read_lines(path: pathlib.Path) -> List[Dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_pages(documents: Optional[List[str]], max_pages: int) -> List[Dict[str, Any]]:
    """Returns the passages to draw, each with its document and page. PageError: there is no such document."""
    pages = []
    for passage in read_lines(DEMO / "passages.jsonl"):
        document, page = passage["id"].rsplit("-", 1)
        pages.append({**passage, "document": document, "page": int(page)})
    known = sorted({page["document"] for page in pages})
    for name in documents or []:
        if name not in known:
            raise PageError(f"--documents {name}: must be one of {', '.join(known)}")
    return [page for page in pages if page["document"] in (documents or known) and page["page"] <= max_pages]


def draw_and_read(page: Dict[str, Any]) -> Tuple[str, List[Word]]:
    """Returns the page's image as a data: URL, and the words that Tesseract finds on the image."""
    image = draw_page(page["title"], page["text"], page["page"])
    return data_url(image), read_words(image)


def write_collection(folder: pathlib.Path, pages: List[Dict[str, Any]]) -> None:
    encoder = PageEncoder()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads, CollectionWriter(
        folder, dim=DIM, storage="f16", name="pages", fields="document:keyword,page:integer", encoder=encoder.identity
    ) as writer:
        for page, (image, words) in zip(pages, threads.map(draw_and_read, pages)):
            payload = {
                "title": f"{page['document']}, page {page['page']}",
                "document": page["document"],
                "page": page["page"],
                "image": image,
                "grid": GRID,
            }
            writer.add(page["id"], encoder.encode(words), payload)


def write_questions(path: pathlib.Path, pages: List[Dict[str, Any]]) -> int:
    """Writes the bundled questions that at least one of `pages` answers. Returns the number of questions."""
    known = {page["id"] for page in pages}
    answers: Dict[str, List[str]] = {}
    for line in (DEMO / "qrels.tsv").read_text().splitlines():
        question, page, grade = line.split()
        if grade == "2" and page in known:
            answers.setdefault(question, []).append(page)
    vectors = np.split(np.load(DEMO / "query_tokens.npy"), np.cumsum(np.load(DEMO / "query_lengths.npy"))[:-1])
    count = 0
    with open(path, "w", encoding="utf-8") as file:
        for question, rows in zip(read_lines(DEMO / "queries.jsonl"), vectors):
            if question["id"] not in answers:
                continue
            data = base64.b64encode(rows.tobytes()).decode("ascii")
            query = {"dtype": "f16", "shape": list(rows.shape), "data": data}
            line = {**question, "query": query, "answers": answers[question["id"]]}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True, metavar="DIR", help="the collection's folder")
    parser.add_argument("--documents", nargs="+", metavar="NAME", help="build only these documents, such as volcano (default: all)")
    parser.add_argument("--pages", type=int, default=5, metavar="N", help="pages of each document, 1 to 5 (default: 5)")
    options = parser.parse_args()
    if not 1 <= options.pages <= 5:
        parser.error(f"--pages {options.pages}: must be 1 to 5")
    try:
        pages = read_pages(options.documents, options.pages)
        options.output.parent.mkdir(parents=True, exist_ok=True)
        write_collection(options.output, pages)
        questions = options.output.with_name(options.output.name + ".questions.jsonl")
        num_questions = write_questions(questions, pages)
    except PageError as error:
        print(f"build.py: {error}", file=sys.stderr)
        return 1
    num_documents = len({page["document"] for page in pages})
    print(f"{num_documents} documents, {len(pages)} pages of {NUM_VECTORS} vectors x {DIM} in {options.output}")
    print(f"{num_questions} questions in {questions}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
