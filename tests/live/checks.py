"""Compares a server's answers with the oracle."""

import random

import numpy as np

import oracle as exact
import server as client
from maxsim.v1 import rerank_pb2
from numbered import query_vectors, same_json


class Mismatch(AssertionError):
    """The server behaved differently from the oracle."""


def expect(condition, what):
    if not condition:
        raise Mismatch(what)


def check_extras(oracle, name, ranking, rows):
    """Compares payloads and alignments, if there are any, with the oracle's documents."""
    query = oracle.storage.query(rows)
    for id, payload in zip(ranking.ids, ranking.payloads):
        expected = oracle.documents[id].payload
        expect(same_json(payload, expected), f"{id!r} in {name} has the payload {payload!r}, not {expected!r}")
    for id, alignment in zip(ranking.ids, ranking.alignments):
        values = oracle.documents[id].values
        products, sizes = query @ values.T, np.abs(query) @ np.abs(values).T
        chosen = np.array(alignment.document_tokens)
        each = np.arange(len(query))
        expect(len(chosen) == len(query) and chosen.max() < len(values), f"alignment of {id!r} in {name}: {chosen}")
        slack = exact.TOLERANCE * sizes.max(axis=1)
        close = np.abs(products[each, chosen] - products.max(axis=1)) <= 2 * slack
        right = np.abs(np.array(alignment.similarities) - products[each, chosen]) <= slack
        expect(close.all() and right.all(), f"alignment of {id!r} in {name}: {chosen}, {products.argmax(axis=1)}")


def check_codes(world, name, seed):
    """Searches by codes. The documents found must exist, and have the scores and the order of an exact search. An
    answer that is proven must equal the exact search. With a budget for all documents, every answer must be proven.
    Returns the documents found."""
    count = len(world.oracle.documents)
    planes = world.server.info(name).code_planes
    expect(planes == world.planes, f"{name} scans {planes} planes instead of {world.planes}")
    if not planes or count < 2:
        return []
    chooser, rows = random.Random(seed), query_vectors(seed, world.dim)
    weights = world.weights(chooser, rows)
    all_ids, all_scores = world.rank(name, rows, None, count, weights, False).essence()
    place, found = {id: index for index, id in enumerate(all_ids)}, []
    for top_k, documents in ((1, 1), (min(5, count - 1), count - 1), (min(3, count // 2), count // 2)):
        for proof in (False, True):
            options = client.proven(documents) if proof else rerank_pb2.RefinementOptions(documents=documents)
            ranking = world.rank(name, rows, None, top_k, weights, False, refinement=options)
            where = f"search of {name} by codes, {options}"
            expect(ranking.refinement is not None, f"{where}: no scan")
            expect(ranking.refinement.planes == planes, f"{where}: {ranking.refinement}")
            expect(all(id in place for id in ranking.ids), f"{where}: {ranking.ids} are not all there")
            places = [place[id] for id in ranking.ids]
            expect(places == sorted(places) and len(places) == top_k, f"{where}: ranks {places}")
            expect(ranking.scores == [all_scores[index] for index in places], f"{where}: other bits")
            is_proven = ranking.refinement.certificate == rerank_pb2.CERTIFICATE_PROVEN
            expect(is_proven or not proof, f"{where}: not proven")
            expect(not is_proven or places == list(range(top_k)), f"{where}: proven, with ranks {places}")
            found.append((ranking.essence(), str(ranking.refinement)))
    return found
