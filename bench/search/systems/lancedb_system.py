"""LanceDB in this process: searches a multivector column by a scan, or by clusters of tokens with product
quantisation."""

import concurrent.futures
from typing import List, Sequence

import lancedb
import numpy as np
import pyarrow as pa
from lancedb.index import IvfPq

from documents import Documents

from .system import Answer, Options, System

DOCUMENTS_PER_BATCH = 5000
SUB_VECTOR = 8  # coordinates that one byte of a code stands for


class LanceDb(System):
    name = "lancedb"
    packages = ("lancedb",)
    builds = ({"index": "none"}, {"index": "ivf_pq"})

    @classmethod
    def searches(cls, build: Options, k: int) -> List[Options]:
        if build["index"] == "none":
            return [{}]
        return [{"nprobes": nprobes, "refine_factor": refine} for nprobes, refine in
                ((20, 1), (20, 10), (80, 10), (320, 30))]  # fmt: skip

    def build(self, documents: Documents) -> None:
        vectors = pa.list_(pa.list_(pa.float16(), documents.dim))
        schema = pa.schema([("document", pa.int64()), ("tokens", vectors)])
        table = self._connect().create_table("documents", schema=schema)
        table.add(pa.RecordBatchReader.from_batches(schema, _batches(documents, schema)))
        if self.options["index"] == "ivf_pq":
            config = IvfPq(distance_type="cosine", num_sub_vectors=max(1, documents.dim // SUB_VECTOR))
            table.create_index("tokens", config=config)

    def open(self) -> None:
        self._table = self._connect().open_table("documents")
        self._pool = concurrent.futures.ThreadPoolExecutor(self.setup.threads)

    def search(self, question: np.ndarray, k: int, options: Options) -> Answer:
        query = self._table.search(question.astype(np.float32), vector_column_name="tokens")
        query = query.distance_type("cosine").select(["document", "_distance"]).limit(k)
        if options:
            query = query.nprobes(options["nprobes"]).refine_factor(options["refine_factor"])
        return Answer(query.to_arrow()["document"].to_pylist())

    def search_many(self, questions: Sequence[np.ndarray], k: int, options: Options) -> List[Answer]:
        return list(self._pool.map(lambda question: self.search(question, k, options), questions))

    def close(self) -> None:
        self._pool.shutdown()

    def _connect(self) -> lancedb.DBConnection:
        return lancedb.connect(str(self.setup.folder / "lance"))


def _batches(documents: Documents, schema: pa.Schema):
    offsets = documents.offsets
    for begin in range(0, len(documents), DOCUMENTS_PER_BATCH):
        end = min(begin + DOCUMENTS_PER_BATCH, len(documents))
        rows = np.ascontiguousarray(documents.vectors[offsets[begin] : offsets[end]])
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), documents.dim)
        ends = pa.array((offsets[begin : end + 1] - offsets[begin]).astype(np.int32))
        yield pa.record_batch([pa.array(np.arange(begin, end)), pa.ListArray.from_arrays(ends, vectors)], schema=schema)


SYSTEM = LanceDb
