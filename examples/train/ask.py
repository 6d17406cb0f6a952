#!/usr/bin/env python3
"""Asks a maxsimd that serves what train.py wrote: the bundled questions, or one of your own.

    python examples/train/ask.py [--server localhost:7070] [QUESTION]

A question goes through MiniLM and the trained head, in NumPy; PyTorch is not needed.
"""

import argparse
import json
import os
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "client" / "python"))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from maxsim import Client  # noqa: E402
from maxsim_encoder.encoder import QUERY  # noqa: E402
from maxsim_encoder.loaders.minilm import MiniLm  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--server", default="localhost:7070", help="address of maxsimd (default: %(default)s)")
    parser.add_argument("--collection", default="trained", help="(default: %(default)s)")
    parser.add_argument("--head", type=pathlib.Path, default=ROOT / "build" / "train" / "head.npy")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "demo", help="where queries.jsonl is")
    parser.add_argument("--top-k", type=int, default=3, help="passages of each question (default: %(default)s)")
    parser.add_argument("question", nargs="?", help="default: those of --data")
    arguments = parser.parse_args()
    # The axes of the demo's encoder are [384, dim]; a linear layer's weight is [dim, 384].
    model = MiniLm(np.ascontiguousarray(np.load(arguments.head).T))
    questions = {"": arguments.question}
    if arguments.question is None:
        lines = (arguments.data / "queries.jsonl").read_text().splitlines()
        questions = {line["id"]: line["text"] for line in map(json.loads, lines)}
    encoded = model.encode(list(questions.values()), QUERY)
    with Client(arguments.server) as client:
        for (name, text), query in zip(questions.items(), encoded):
            print(f"{name} {text}".lstrip())
            ranking = client.rerank(arguments.collection, query.vectors, top_k=arguments.top_k, payloads=True)
            for rank, passage in enumerate(ranking, start=1):
                print(f"  {rank}. {passage.id:14} {passage.score:.4f} {passage.payload['title']}")


if __name__ == "__main__":
    main()
