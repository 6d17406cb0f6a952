"""Qdrant's engine, in this process, finds candidates, and maxsimd ranks them. Compares this with Qdrant's own MaxSim.

    pip install qdrant-edge-py ./client/python
    python examples/first_stage/ask_qdrant_edge.py      # a server of `make serve` is running

Qdrant Edge is the storage and the search of a Qdrant server, without the server.
"""

import tempfile

import qdrant_edge as edge
from maxsim import Client

from first_stage import RESULTS, arguments, read_data, report

POINTS_A_CALL = 100


def build_index(folder, data):
    """Points are numbered by the documents' positions, because Qdrant's ids are integers or UUIDs."""
    dim = data.pooled.shape[1]
    maxsim = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
    vectors = {
        "pooled": edge.EdgeVectorParams(dim, edge.Distance.Cosine),
        "tokens": edge.EdgeVectorParams(dim, edge.Distance.Dot, multivector_config=maxsim),
    }
    shard = edge.EdgeShard.create(folder, edge.EdgeConfig(vectors=vectors))
    for begin in range(0, len(data.ids), POINTS_A_CALL):
        points = [
            edge.Point(
                position,
                {"pooled": data.pooled[position].tolist(), "tokens": data.tokens[position].tolist()},
                {"id": data.ids[position]},
            )
            for position in range(begin, min(begin + POINTS_A_CALL, len(data.ids)))
        ]
        shard.update(edge.UpdateOperation.upsert_points(points))
    return shard


def ids_of(points):
    return [point.payload["id"] for point in points]


def main():
    options = arguments(__doc__)
    data = read_data(options.data)
    positions = {id: position for position, id in enumerate(data.ids)}

    with tempfile.TemporaryDirectory() as folder, Client(options.server) as client:
        shard = build_index(folder, data)

        def search(question, limit):
            query = edge.Query.Nearest(question.pooled.tolist(), using="pooled")
            return ids_of(shard.query(edge.QueryRequest(limit, query=query, with_payload=True)))

        def qdrant_maxsim(question, ids):
            query = edge.Query.Nearest(question.tokens.tolist(), using="tokens")
            chosen = edge.Filter(must=[edge.HasIdCondition({positions[id] for id in ids})])
            exact = edge.SearchParams(exact=True)
            request = edge.QueryRequest(RESULTS, query=query, filter=chosen, params=exact, with_payload=True)
            return ids_of(shard.query(request))

        def rerank(question, ids):
            return [document.id for document in client.rerank(options.collection, question.tokens, ids, top_k=RESULTS)]

        rerankers = {"then maxsimd": rerank, "then Qdrant's MaxSim": qdrant_maxsim}
        report(data, options.candidates, ("qdrant edge, pooled vectors", search), rerankers)
        shard.close()


if __name__ == "__main__":
    main()
