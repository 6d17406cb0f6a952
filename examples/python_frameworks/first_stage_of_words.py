"""The common parts of the examples: a question about the bundled passages, and a simple first stage in place of
yours."""

import json
import pathlib
import re
import sys

QUESTION = "Why do some volcanoes explode while others only pour out lava?"


def arguments(*more):
    """Returns the program's arguments: the server, the folder of the passages, and `more`. These are also the
    defaults."""
    defaults = ["localhost:7070", "demo", *more]
    given = sys.argv[1:]
    return [*given, *defaults[len(given) :]]


def find_candidates(folder, question=QUESTION, limit=12):
    """Returns the passages that share most words with the question: dictionaries of "id", "title" and "text"."""
    lines = (pathlib.Path(folder) / "passages.jsonl").read_text(encoding="utf-8").splitlines()
    wanted = _words(question)
    passages = []
    for line in lines:
        passage = json.loads(line)
        # The bundled collection was encoded from this text.
        text = f"{passage['title']}. {passage['text']}"
        passages.append({"id": passage["id"], "title": passage["title"], "text": text})
    return sorted(passages, key=lambda passage: -len(wanted & _words(passage["text"])))[:limit]


def show(rank, id, score, title):
    print(f"{rank}. {id} {score:.4f} {title}")


def _words(text):
    return set(re.findall(r"\w+", text.lower()))
