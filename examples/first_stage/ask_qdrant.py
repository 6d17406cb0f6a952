"""Qdrant finds candidates with one vector per document, and maxsimd ranks them. Compares this with Qdrant's own
MaxSim.

    pip install qdrant-client ./client/python
    python examples/first_stage/ask_qdrant.py           # a server of `make serve` is running

`:memory:` is qdrant-client's local mode: NumPy in this process, with the calls of a server. Its times say nothing about
Qdrant; for a server give QdrantClient its URL, and for Qdrant's engine in this process see ask_qdrant_edge.py.
"""

from maxsim import Client
from qdrant_client import QdrantClient, models

from first_stage import RESULTS, arguments, read_data, report

COLLECTION = "documents"
POINTS_A_CALL = 100


def build_index(qdrant, data):
    """Points are numbered by the documents' positions, because Qdrant's ids are integers or UUIDs."""
    dim = data.pooled.shape[1]
    qdrant.create_collection(
        COLLECTION,
        vectors_config={
            "pooled": models.VectorParams(size=dim, distance=models.Distance.COSINE),
            # Token vectors need no graph, because they are only scored and never searched.
            "tokens": models.VectorParams(
                size=dim,
                distance=models.Distance.DOT,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
                hnsw_config=models.HnswConfigDiff(m=0),
            ),
        },
    )
    for begin in range(0, len(data.ids), POINTS_A_CALL):
        points = [
            models.PointStruct(
                id=position,
                vector={"pooled": data.pooled[position].tolist(), "tokens": data.tokens[position].tolist()},
                payload={"id": data.ids[position]},
            )
            for position in range(begin, min(begin + POINTS_A_CALL, len(data.ids)))
        ]
        qdrant.upsert(COLLECTION, points)


def main():
    options = arguments(__doc__)
    data = read_data(options.data)
    positions = {id: position for position, id in enumerate(data.ids)}
    qdrant = QdrantClient(":memory:")
    build_index(qdrant, data)

    def search(question, limit):
        answer = qdrant.query_points(COLLECTION, question.pooled.tolist(), using="pooled", limit=limit)
        return [point.payload["id"] for point in answer.points]

    def qdrant_maxsim(question, ids):
        chosen = models.HasIdCondition(has_id=[positions[id] for id in ids])
        answer = qdrant.query_points(
            COLLECTION,
            question.tokens.tolist(),
            using="tokens",
            query_filter=models.Filter(must=[chosen]),
            limit=RESULTS,
        )
        return [point.payload["id"] for point in answer.points]

    with Client(options.server) as client:

        def rerank(question, ids):
            return [document.id for document in client.rerank(options.collection, question.tokens, ids, top_k=RESULTS)]

        rerankers = {"then maxsimd": rerank, "then Qdrant's MaxSim": qdrant_maxsim}
        report(data, options.candidates, ("qdrant, pooled vectors", search), rerankers)


if __name__ == "__main__":
    main()
