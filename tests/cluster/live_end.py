"""Checks what the servers of a cluster hold when nothing is written any more."""

import time

import compare
import server as client
from live_load import ALL, PATIENCE_S, QUERIES
from numbered import query_vectors


def check_the_end(world, questions, known, groups):
    """Checks that every replica holds the documents of the oracle and no others, and that the router ranks like the
    single server. `groups` has the nodes of each group, and the ids that they should hold if these have documents."""
    cluster, documents = world.cluster, known.oracle.documents
    for node in [cluster.single, *(node for nodes, _ in groups for node in nodes)]:
        until = time.monotonic() + PATIENCE_S
        while (sequence := node.info(world.name).live.sequence) != known.last:
            assert time.monotonic() < until, f"{node.name} has applied {sequence} of {known.last} messages"
            time.sleep(0.02)
    for nodes, ids in groups:
        wanted = {id: documents[id].payload for id in ids if id in documents}
        for node in nodes:
            answer = node.get(client.get_request(world.name, ids, return_tokens=True))
            found = {client.stored_id(one): one.payload for one in answer.documents}
            assert found == wanted, f"{node.name} holds {found} instead of {wanted}"
            assert node.info(world.name).num_documents == len(wanted), f"{node.name} holds documents of other slots"
            for one in answer.documents:
                questions.check_stored(one)
    for query in range(QUERIES):
        request = client.rerank_request(
            world.name, query_vectors(query, world.ids.dim), top_k=ALL, return_payloads=True
        )
        wanted, got = (node.rerank(request) for node in (cluster.single, cluster.router))
        for one in (wanted, got):
            one.generation = 0  # each server compacts on its own
            one.results[0].ClearField("positions")  # a collection without partitions counts positions differently
        found = compare.difference(wanted, got)
        assert not found, f"the router and the one server rank differently: {found}"
