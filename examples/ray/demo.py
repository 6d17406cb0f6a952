"""Scores the bundled questions on Ray: builds the demo collection and its queries as Parquet, and calls run.py twice.

    python demo.py [--bin DIR] [--output DIR] [ARGUMENTS of run.py]

    --bin DIR      folder of maxsimd and maxsim-shard (default: build/release/bin)
    --output DIR   what is written (default: build/ray-demo); what an earlier demo left there is removed
"""

from __future__ import annotations

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "demo"


Array = npt.NDArray[Any]


def queries_table(ids: list[str], tokens: Array, lengths: Array, candidates: list[list[str]]) -> pa.Table:
    """Returns the input of run.py. `tokens` [all tokens, dim] are those of all queries; `lengths` is [queries]."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(tokens).ravel()), tokens.shape[1])
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.table({"query_id": ids, "tokens": pa.ListArray.from_arrays(ends, vectors), "candidates": candidates})


def demo_queries() -> pa.Table:
    """Returns the 15 questions, each with the 50 passages that share most words with it: a first stage of words."""

    def words(line: dict[str, Any]) -> set[str]:
        return {word.strip(".,?!").lower() for word in f"{line.get('title', '')} {line['text']}".split()}

    def lines(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (DEMO / name).read_text(encoding="utf-8").splitlines()]

    passages, queries = lines("passages.jsonl"), lines("queries.jsonl")
    candidates = []
    for query in queries:
        by_words = sorted(passages, key=lambda passage: len(words(query) & words(passage)), reverse=True)
        candidates.append([passage["id"] for passage in by_words[:50]])
    tokens, lengths = np.load(DEMO / "query_tokens.npy"), np.load(DEMO / "query_lengths.npy")
    return queries_table([query["id"] for query in queries], tokens, lengths, candidates)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "build" / "ray-demo")
    options, arguments = parser.parse_known_args()
    collection, queries = options.output / "collection", options.output / "queries.parquet"
    options.output.mkdir(parents=True, exist_ok=True)
    pq.write_table(demo_queries(), queries)
    subprocess.run([DEMO / "build.sh", "--bin", options.bin, "--output", collection], check=True)
    for mode in ("score", "top-k"):
        output = options.output / mode
        shutil.rmtree(output, ignore_errors=True)
        command = [sys.executable, pathlib.Path(__file__).with_name("run.py"), mode, "--collection", collection]
        command += ["--queries", queries, "--output", output, "--maxsimd", options.bin / "maxsimd", *arguments]
        if subprocess.run([*map(str, command)], check=False).returncode != 0:
            return 1
        table = pq.read_table(output)
        best = table.filter(pc.less_equal(table["rank"], 2))
        best = best.sort_by([("query_id", "ascending"), ("rank", "ascending")]).slice(0, 6)
        for row in best.to_pylist():
            print(f"  {row['query_id']}  {row['rank']}. {row['document_id']:<14} {row['score']:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
