"""Tests calls that are too large for one request, with both clients. The servers run in this process and refuse too
large requests, as maxsimd does.

python splitting_test.py
"""

import unittest

import grpc
import numpy as np

from client_fixture import BothTest, serve
from wire_details import refuse

from maxsim import errors
from maxsim.v1 import documents_pb2
from maxsim.v1 import rerank_pb2 as pb

DIM = 8


class LimitedServer:
    """A server that gives the score i to query i, a matrix whose values are all i. Like maxsimd, it refuses requests
    that exceed its limits. Each document takes `document_bytes` bytes in an answer."""

    def __init__(self, test, document_bytes=10, missing=(), **limits):
        self.requests, self.num_infos, self.document_bytes, self.missing = [], 0, document_bytes, missing
        self.limits = pb.Limits(**{"max_queries_per_request": 64, "max_request_bytes": 64 << 20, **limits})
        methods = {name: getattr(self, name) for name in ("GetInfo", "Rerank", "Get", "Delete")}
        self.address = f"127.0.0.1:{serve(test, **methods)}"

    def GetInfo(self, request, context):
        self.num_infos += 1
        return pb.GetInfoResponse(limits=self.limits)

    def Rerank(self, request, context):
        self.requests.append(request)
        if len(request.queries) > self.limits.max_queries_per_request:
            problem = f"has {len(request.queries)} queries"
            refuse(context, "queries", problem, limit_key="limits.max_queries_per_request")
        if request.ByteSize() > self.limits.max_request_bytes:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max")
        if len(request.queries) > (self.limits.max_request_work or 1000):
            refuse(context, "queries", "ask for 99 token pairs; must be at most 9", limit_key="limits.max_request_work")
        response = pb.RerankResponse(generation=3)
        for i, query in enumerate(request.queries):
            value = np.frombuffer(query.tokens.data, np.float32)[0]
            if value < 0:
                refuse(context, f"queries[{i}].tokens", "has a negative value")
            response.results.add(scores=[value], positions=[0], string_ids=pb.StringIds(ids=["a"]))
        return response

    def Get(self, request, context):
        self.requests.append(request)
        ids = request.int_ids.ids or request.string_ids.ids
        if len(ids) > 1000:
            refuse(context, "int_ids.ids", f"has {len(ids)} ids; must have 1 to 1000")
        if -1 in ids:
            refuse(context, f"int_ids.ids[{[*ids].index(-1)}]", "is negative")
        if len(ids) * self.document_bytes > (self.limits.max_answer_bytes or 1 << 30):
            refuse(context, "ids", "the first 3 documents take 99 bytes", limit_key="limits.max_answer_bytes")
        response = documents_pb2.GetResponse(generation=len(self.requests), sequence=10 + len(self.requests))
        for id in ids:
            if id in self.missing:
                response.missing_int_ids.ids.append(id)
            else:
                response.documents.add(int_id=id, num_tokens=1)
        return response

    def Delete(self, request, context):
        if -1 in request.int_ids.ids:
            refuse(context, f"int_ids.ids[{[*request.int_ids.ids].index(-1)}]", "is negative")
        results = [documents_pb2.WriteResult(outcome=1, sequence=1)] * len(request.int_ids.ids)
        return documents_pb2.DeleteResponse(results=results, sequence=1)


def queries_of(values, num_tokens=1):
    return [np.full((num_tokens, DIM), value, np.float32) for value in values]


class RerankManyTest(BothTest):
    def sizes(self, server):
        return [len(request.queries) for request in server.requests]

    def check(self, client, server, queries, values, **arguments):
        server.requests.clear()
        rankings = client.rerank_many("docs", queries, **arguments)
        self.assertEqual([ranking.scores.tolist() for ranking in rankings], [[value] for value in values])

    def test_queries_go_in_as_many_requests_as_the_server_needs(self):
        server = LimitedServer(self)
        for num, sizes in ((1, [1]), (63, [63]), (64, [64]), (65, [64, 1]), (225, [64, 64, 64, 33])):
            for client in self.clients(server):
                with self.subTest(num):
                    self.check(client, server, queries_of(range(num)), range(num), ids=["a", "b"], top_k=7)
                    self.assertEqual(self.sizes(server), sizes)
                    for request in server.requests:
                        self.assertEqual((request.collection, request.top_k), ("docs", 7))
                        self.assertEqual(request.candidates.string_ids.ids, ["a", "b"])

    def test_each_query_keeps_its_candidates_and_weights(self):
        for client in self.clients(server := LimitedServer(self)):
            ids, weights = [[f"d{i}"] for i in range(130)], [[i / 2] for i in range(130)]
            self.check(client, server, queries_of(range(130)), range(130), ids=ids, weights=weights)
            sent = [query for request in server.requests for query in request.queries]
            self.assertEqual([[*query.candidates.string_ids.ids] for query in sent], ids)
            self.assertEqual([[*query.weights] for query in sent], weights)

    def test_a_request_has_as_many_bytes_as_the_server_takes(self):
        queries = queries_of(range(10), num_tokens=100)  # 3,200 bytes each
        for client in self.clients(server := LimitedServer(self, max_request_bytes=10_000)):
            self.check(client, server, queries, range(10), ids=["a"])
            self.assertEqual(self.sizes(server), [3, 3, 3, 1])
            # All queries share one candidate list, which each part of the split call repeats. So with a longer list,
            # fewer queries fit into a part.
            self.check(client, server, queries, range(10), ids=["a" * 3000])
            self.assertEqual(self.sizes(server), [2, 2, 2, 2, 2])

    def test_a_query_that_is_too_large_by_itself_is_the_servers_to_refuse(self):
        for client in self.clients(LimitedServer(self, max_request_bytes=1000)):
            with self.assertRaisesRegex(errors.ResourceExhausted, "larger than max") as caught:
                client.rerank_many("docs", queries_of(range(2), num_tokens=100))
            self.check_cause(caught.exception)

    def test_a_limit_on_the_sum_of_queries_halves_the_requests(self):
        for client in self.clients(server := LimitedServer(self, max_request_work=20)):
            self.check(client, server, queries_of(range(70)), range(70))
            self.assertEqual(self.sizes(server), [64, 32, 16, 16, 16, 16, 6])

    def test_one_query_beyond_a_limit_is_an_error(self):
        def rerank(request, context):
            refuse(context, "queries", "ask for 9 pairs", limit_key="limits.max_request_work")

        server = LimitedServer(self)
        server.address = f"127.0.0.1:{serve(self, GetInfo=server.GetInfo, Rerank=rerank)}"
        for client in self.clients(server):
            with self.assertRaises(errors.InvalidArgument) as caught:
                client.rerank_many("docs", queries_of(range(9)))
            self.assertEqual(caught.exception.limit_key, "limits.max_request_work")

    def test_an_error_names_the_query_among_all(self):
        for client in self.clients(LimitedServer(self)):
            with self.assertRaises(errors.InvalidArgument) as caught:
                client.rerank_many("docs", queries_of([*range(67), -1]))
            self.assertEqual(caught.exception.field, "queries[67].tokens")
            self.assertEqual(caught.exception.message, "queries[67].tokens: has a negative value")
            self.check_cause(caught.exception)

    def test_the_server_is_asked_for_its_limits_once_and_not_for_one_query(self):
        for client in self.clients(server := LimitedServer(self)):
            server.num_infos = 0
            client.rerank_many("docs", queries_of([1]))
            self.assertEqual(server.num_infos, 0)
            for _ in range(3):
                client.rerank_many("docs", queries_of([1, 2]))
            self.assertEqual(server.num_infos, 1)

    def test_no_queries_are_refused(self):
        for client in self.clients(LimitedServer(self)):
            with self.assertRaisesRegex(ValueError, "queries is empty; at least one query is needed"):
                client.rerank_many("docs", [])


class GetAndDeleteTest(BothTest):
    def sizes(self, server):
        return [len(request.int_ids.ids) for request in server.requests]

    def test_ids_go_in_as_many_requests_as_the_server_needs(self):
        server = LimitedServer(self, missing=(3, 2000))
        for num, sizes in ((999, [999]), (1000, [1000]), (1001, [1000, 1]), (2500, [1000, 1000, 500])):
            for client in self.clients(server):
                with self.subTest(num):
                    server.requests.clear()
                    found = client.get("docs", np.arange(num), min_sequence=5)
                    self.assertEqual([document.id for document in found], [i for i in range(num) if i not in (3, 2000)])
                    self.assertEqual(found.missing, [i for i in (3, 2000) if i < num])
                    self.assertEqual((found.generation, found.sequence), (1, 11))
                    self.assertEqual(self.sizes(server), sizes)
                    self.assertEqual({(r.collection, r.min_sequence) for r in server.requests}, {("docs", 5)})

    def test_documents_that_are_too_large_for_one_answer_come_in_several(self):
        for client in self.clients(server := LimitedServer(self, document_bytes=1000, max_answer_bytes=300_000)):
            server.requests.clear()
            self.assertEqual(len(client.get("docs", np.arange(1100))), 1100)
            self.assertEqual(self.sizes(server), [1000, 500, 250, 250, 250, 250, 100])
        for client in self.clients(LimitedServer(self, document_bytes=1000, max_answer_bytes=300)):
            with self.assertRaisesRegex(errors.InvalidArgument, "documents take 99 bytes"):
                client.get("docs", [1, 2])

    def test_an_error_names_the_id_among_all(self):
        for client in self.clients(LimitedServer(self)):
            for call, before in ((client.get, 1234), (client.delete, 12_345)):
                with self.assertRaises(errors.InvalidArgument) as caught:
                    call("docs", [*range(before), -1])
                self.assertEqual(caught.exception.field, f"int_ids.ids[{before}]")
                self.check_cause(caught.exception)


if __name__ == "__main__":
    unittest.main(verbosity=2)
