"""Asks a maxsimd one of the bundled questions and prints the five best passages.

    python ask.py [SERVER [DEMO_FOLDER [QUESTION]]]      default: localhost:7070 demo 8

Needs the package of client/python (pip install ./client/python).
"""

import pathlib
import sys

import numpy as np
from maxsim import Client


DEFAULTS = ["localhost:7070", "demo", "8"]


def main():
    server, demo, question = sys.argv[1:] + DEFAULTS[len(sys.argv) - 1 :]
    folder = pathlib.Path(demo)
    # The token vectors of all questions follow one another in a float16 [192, 128] array. An int32 [15] array has the
    # number of vectors of each question.
    vectors = np.load(folder / "query_tokens.npy")
    ends = np.cumsum(np.load(folder / "query_lengths.npy"))
    query = np.split(vectors, ends[:-1])[int(question)]

    with Client(server) as client:
        # Without ids, the whole collection is ranked. ids=["volcano-1", "bees-2"] would rank only these two.
        ranking = client.rerank("demo", query, top_k=5, payloads=True)
    for rank, document in enumerate(ranking, start=1):
        print(f"{rank}. {document.id} {document.score:.4f} {document.payload['title']}")


if __name__ == "__main__":
    main()
