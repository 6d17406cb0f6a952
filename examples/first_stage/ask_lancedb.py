"""LanceDB's full-text search finds candidates, and maxsimd ranks them. Compares this with LanceDB's own MaxSim.

    pip install lancedb ./client/python
    python examples/first_stage/ask_lancedb.py          # a server of `make serve` is running

LanceDB's multivector columns use cosine similarity. This is MaxSim if vectors have length 1.
"""

import tempfile

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import FTS, BTree
from maxsim import Client

from first_stage import RESULTS, arguments, read_data, report


def build_table(folder, data):
    vectors = np.concatenate(data.tokens)
    rows = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
    ends = np.cumsum([0] + [len(tokens) for tokens in data.tokens], dtype=np.int32)
    columns = {"id": data.ids, "text": data.texts, "tokens": pa.ListArray.from_arrays(pa.array(ends), rows)}
    table = lancedb.connect(folder).create_table("documents", pa.table(columns))
    table.create_index("text", config=FTS(stem=True, remove_stop_words=True))
    table.create_index("id", config=BTree())
    return table


def main():
    options = arguments(__doc__)
    data = read_data(options.data)

    with tempfile.TemporaryDirectory() as folder, Client(options.server) as client:
        table = build_table(folder, data)

        def search(question, limit):
            rows = table.search(question.text, query_type="fts").select(["id", "_score"]).limit(limit)
            return [row["id"] for row in rows.to_list()]

        def lancedb_maxsim(question, ids):
            chosen = ", ".join("'" + id.replace("'", "''") + "'" for id in ids)
            rows = table.search(question.tokens, vector_column_name="tokens").distance_type("cosine")
            rows = rows.where(f"id IN ({chosen})", prefilter=True).select(["id", "_distance"]).limit(RESULTS)
            return [row["id"] for row in rows.to_list()]

        def rerank(question, ids):
            return [document.id for document in client.rerank(options.collection, question.tokens, ids, top_k=RESULTS)]

        rerankers = {"then maxsimd": rerank, "then LanceDB's MaxSim": lancedb_maxsim}
        report(data, options.candidates, ("lancedb, full text", search), rerankers)


if __name__ == "__main__":
    main()
