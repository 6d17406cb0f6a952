"""Qdrant's engine in this process (qdrant-edge-py): searches multivectors with MaxSim by a scan, or by a graph of
documents."""

from typing import List, Sequence

import numpy as np
import qdrant_edge as edge

from documents import Documents

from .system import Answer, Options, System

DOCUMENTS_PER_UPDATE = 500
VECTOR = "tokens"
# Indexing thresholds are in KB. With 1 KB, even a small collection gets its graph and its codes.
OPTIMIZERS = {"indexing_threshold": 1, "default_segment_number": 1}
EF_CONSTRUCT = 100


class Qdrant(System):
    name = "qdrant"
    packages = ("qdrant-edge-py",)
    builds = ({"graph": 0, "codes": "binary"}, {"graph": 0, "codes": "none"}, {"graph": 16, "codes": "none"})

    @classmethod
    def searches(cls, build: Options, k: int) -> List[Options]:
        if build["graph"]:
            return [{"hnsw_ef": ef} for ef in (128, 256, 512)]
        if build["codes"] == "binary":
            return [{"oversampling": oversampling} for oversampling in (3.0, 1.0, 10.0, 30.0)]
        return [{"exact": True}]

    def build(self, documents: Documents) -> None:
        codes = edge.BinaryQuantizationConfig(memory=edge.Memory.Pinned) if self.options["codes"] == "binary" else None
        vectors = edge.EdgeVectorParams(
            documents.dim,
            edge.Distance.Dot,
            multivector_config=edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim),
            datatype=edge.VectorStorageDatatype.Float16,
            hnsw_config=edge.HnswIndexConfig(self.options["graph"], EF_CONSTRUCT, 1, self.setup.threads),
            quantization_config=codes,
        )
        optimizers = edge.EdgeOptimizersConfig(**OPTIMIZERS)
        config = edge.EdgeConfig(vectors={VECTOR: vectors}, optimizers=optimizers, wal_enabled=False)
        shard = edge.EdgeShard.create(self._path(), config)
        for begin in range(0, len(documents), DOCUMENTS_PER_UPDATE):
            end = min(begin + DOCUMENTS_PER_UPDATE, len(documents))
            matrices = documents.matrices(begin, end)
            points = [
                edge.Point(begin + number, {VECTOR: matrix.astype(np.float32)})
                for number, matrix in enumerate(matrices)
            ]
            shard.update(edge.UpdateOperation.upsert_points(points))
        shard.optimize()
        shard.flush()
        shard.close()

    def open(self) -> None:
        self._shard = edge.EdgeShard.load(self._path())

    def search(self, question: np.ndarray, k: int, options: Options) -> Answer:
        return Answer([point.id for point in self._shard.query(self._request(question, k, options))])

    def search_many(self, questions: Sequence[np.ndarray], k: int, options: Options) -> List[Answer]:
        requests = [self._request(question, k, options) for question in questions]
        found = self._shard.query_batch(edge.QueryBatchRequest(requests))
        return [Answer([point.id for point in ranking]) for ranking in found]

    def close(self) -> None:
        self._shard.close()

    def _request(self, question: np.ndarray, k: int, options: Options) -> edge.QueryRequest:
        codes = None
        if "oversampling" in options:
            codes = edge.QuantizationSearchParams(rescore=True, oversampling=options["oversampling"])
        params = edge.SearchParams(
            hnsw_ef=options.get("hnsw_ef"), exact=options.get("exact", False), quantization=codes
        )
        query = edge.Query.Nearest(question.astype(np.float32).tolist(), using=VECTOR)
        return edge.QueryRequest(k, query=query, params=params)

    def _path(self) -> str:
        return str(self.setup.folder / "shard")


SYSTEM = Qdrant
