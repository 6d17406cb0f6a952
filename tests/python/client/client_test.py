"""Tests maxsim.Client with the real programs: compares its answers with NumPy in FP64.

python client_test.py FOLDER_OF_THE_PROGRAMS
"""

import time

import numpy as np

from client_fixture import DIM, RealServerTest, main, serve


class ClientTest(RealServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        from maxsim import Client

        cls.client = Client(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def test_whole_collections_of_both_kinds_of_ids(self):
        for name, collection in (("text", self.text), ("numbers", self.numbers)):
            for query in self.queries:
                ranking = self.client.rerank(name, query, top_k=25)
                self.expect(collection, ranking, query, range(len(collection.ids)), 25)
                self.assertEqual(ranking.generation, 1)

    def test_listed_ids_with_unknown_ones_and_payloads(self):
        query = self.queries[1]
        ordinals = [80, 3, 41, 0, 89]
        ids = [self.text.ids[o] for o in ordinals]
        ranking = self.client.rerank("text", query, ids, top_k=5, payloads=True)
        self.expect(self.text, ranking, query, ordinals, 5)
        self.assertEqual([d.payload["title"] for d in ranking], [f"Título {d.id}" for d in ranking])
        self.assertEqual(self.client.rerank("text", query, ids + ["nobody"]).missing, ["nobody"])
        self.assertEqual(self.client.rerank("numbers", query, [1000, -5]).missing, [-5])

    def test_ids_may_be_numpy_values(self):
        query = self.queries[1]
        ordinals = [50, 3, 41]
        numbers = [self.numbers.ids[o] for o in ordinals]
        mixed = [np.int64(numbers[0]), numbers[1], np.int16(numbers[2])]
        for ids in (np.array(numbers), mixed, iter(numbers)):
            self.expect(self.numbers, self.client.rerank("numbers", query, ids), query, ordinals, 10)
        texts = [self.text.ids[o] for o in ordinals]
        for ids in (np.array(texts), list(np.array(texts))):
            self.expect(self.text, self.client.rerank("text", query, ids), query, ordinals, 10)

    def test_ids_that_are_neither_all_strings_nor_all_integers_are_refused(self):
        for ids, position, shown in (
            ([1000.7], 0, "1000.7"),
            ([1000, 1001.0], 1, "1001.0"),
            (np.array([1000.0, 1001.0]), 0, "1000.0"),
            ([1000, "1001"], 1, "'1001'"),
            ([1, 2, "a"], 2, "'a'"),
            (["a", 1], 1, "1"),
            (["a", b"b"], 1, "b'b'"),
            ([True], 0, "True"),
            ([1, np.True_], 1, repr(np.True_)),
            (np.array([True]), 0, "True"),
            ([None], 0, "None"),
            (np.array([[1, 2], [3, 4]]), 0, "[1, 2]"),
        ):
            with self.subTest(ids=ids), self.assertRaises(ValueError) as raised:
                self.client.rerank("numbers", self.queries[0], ids)
            self.assertEqual(
                str(raised.exception), f"ids[{position}] is {shown}; ids must be all strings or all integers"
            )

    def test_no_ids_and_one_bare_id_are_refused(self):
        for ids in ([], (), np.array([], np.int64), iter(())):
            with self.subTest(ids=ids), self.assertRaisesRegex(ValueError, "^ids is empty; at least one candidate"):
                self.client.rerank("text", self.queries[0], ids)
        for ids in ("doc/001", b"doc/001", np.array("doc/001")):
            with self.subTest(ids=ids), self.assertRaisesRegex(ValueError, "is one string; must be a list"):
                self.client.rerank("text", self.queries[0], ids)

    def test_weights_and_several_queries_in_one_call(self):
        weights = [np.linspace(0.5, 2, len(q)).astype(np.float32) for q in self.queries]
        rankings = self.client.rerank_many("text", self.queries, weights=weights, top_k=10)
        for ranking, query, w in zip(rankings, self.queries, weights):
            self.expect(self.text, ranking, query, range(len(self.text.ids)), 10, w)

    def test_calls_carry_the_clients_name(self):
        from maxsim.v1 import rerank_pb2
        from maxsim import Client

        calls = []

        def record(request, context):
            calls.append(dict(context.invocation_metadata()))
            return rerank_pb2.GetInfoResponse()

        port = serve(self, GetInfo=record)
        for arguments in (
            {},
            {"client_id": "shop"},
            {"client_id": "shop", "token": "secret"},
            {"client_id": "shop", "client_key": "x-tenant"},
        ):
            with Client(f"127.0.0.1:{port}", **arguments) as client:
                client.info()
        self.assertEqual([call.get("x-client-id") for call in calls], [None, "shop", "shop", None])
        self.assertEqual([call.get("x-tenant") for call in calls], [None, None, None, "shop"])
        self.assertEqual([call.get("authorization") for call in calls], [None, None, "Bearer secret", None])

    def test_every_call_carries_the_token(self):
        import grpc
        from maxsim.v1 import admin_pb2, rerank_pb2
        from maxsim import Client

        server = self.secured_server()
        request = rerank_pb2.RerankRequest(request_id="s-1", collection="nowhere")

        def raw_calls(client):
            """Returns functions by name. Each makes the same call in another way, and returns the name of the first
            collection."""
            listing = admin_pb2.ListCollectionsRequest()
            return {
                "blocking": lambda: client.admin.ListCollections(listing).collections[0].name,
                "future": lambda: client.admin.ListCollections.future(listing).result().collections[0].name,
                "with_call": lambda: client.admin.ListCollections.with_call(listing)[0].collections[0].name,
                "GetInfo": lambda: client.reranker.GetInfo(rerank_pb2.GetInfoRequest()).collections[0].name,
                "stream": lambda: next(client.reranker.RerankStream(iter([request]))).request_id,
                "helper": lambda: client.rerank("text", self.queries[0], top_k=1).documents[0].id[:4],
            }

        with Client(server.address, token="secret", client_id="shop") as client:
            answers = {name: call() for name, call in raw_calls(client).items()}
            self.assertEqual(answers.pop("stream"), "s-1")
            self.assertEqual(answers.pop("helper"), "doc/")
            self.assertEqual(set(answers.values()), {"text"})
            # A call's own metadata replaces the client's: the client does not send both.
            with self.assertRaises(grpc.RpcError) as raised:
                client.admin.ListCollections(
                    admin_pb2.ListCollectionsRequest(), metadata=[("authorization", "Bearer wrong")]
                )
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
        with Client(server.address) as client:
            for name, call in raw_calls(client).items():
                with self.subTest(name), self.assertRaises(grpc.RpcError) as raised:
                    call()
                self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAUTHENTICATED)

    def test_collections_are_loaded_reloaded_and_unloaded(self):
        import grpc
        from maxsim import Client

        with Client(self.secured_server().address, token="secret") as client:
            info = client.load("second", str(self.collections["numbers"]), residency="host")
            self.assertEqual((info.name, info.num_documents, info.residency), ("second", 60, "host"))
            self.expect(self.numbers, client.rerank("second", self.queries[1]), self.queries[1], range(60), 10)
            self.assertFalse(client.reload("second"))
            self.assertFalse(client.reload("second", generation=1))
            for wrong in (-1, 1 << 63, "1"):
                self.assertRaises(ValueError, client.reload, "second", generation=wrong)
            with self.assertRaises(grpc.RpcError) as raised:
                client.reload("second", generation=9)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn("generation: no generation 9 in ", raised.exception.details())
            client.unload("second")
            self.assertEqual([c.name for c in client.collections()], ["text"])
            for call in (lambda: client.reload("second"), lambda: client.unload("second")):
                with self.assertRaises(grpc.RpcError) as raised:
                    call()
                self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_unknown_ids_may_be_an_error(self):
        import grpc

        query = self.queries[0]
        self.assertEqual(self.client.rerank("text", query, ["nobody"], missing_policy="report").missing, ["nobody"])
        with self.assertRaises(grpc.RpcError) as raised:
            self.client.rerank("text", query, ["nobody"], missing_policy="fail")
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        for wrong in ({"missing_policy": "ignore"}, {"priority": "urgent"}):
            self.assertRaises(ValueError, self.client.rerank, "text", query, **wrong)

    def test_options_of_a_request_arrive(self):
        from maxsim.v1 import rerank_pb2
        from maxsim import Client

        requests = []

        def record(request, context):
            requests.append(request)
            return rerank_pb2.RerankResponse(results=[rerank_pb2.QueryResult()])

        with Client(f"127.0.0.1:{serve(self, Rerank=record)}") as client:
            client.rerank("c", self.queries[0])
            client.rerank("c", self.queries[0], priority="low", missing_policy="fail", request_id="r-7")
        self.assertEqual([r.priority for r in requests], [rerank_pb2.PRIORITY_NORMAL, rerank_pb2.PRIORITY_LOW])
        self.assertEqual(
            [r.missing_policy for r in requests], [rerank_pb2.MISSING_POLICY_REPORT, rerank_pb2.MISSING_POLICY_FAIL]
        )
        self.assertEqual([r.request_id for r in requests], ["", "r-7"])

    def test_calls_go_to_all_addresses_in_turn(self):
        from maxsim.v1 import rerank_pb2
        from maxsim import Client

        calls = []

        def recorder(number):
            def record(request, context):
                calls.append(number)
                return rerank_pb2.GetInfoResponse()

            return serve(self, GetInfo=record)

        with Client(f"ipv4:127.0.0.1:{recorder(1)},127.0.0.1:{recorder(2)}") as client:
            limit = time.monotonic() + 30
            while set(calls) != {1, 2} and time.monotonic() < limit:
                client.info()
        self.assertEqual(set(calls), {1, 2})

    def test_queries_are_rounded_to_the_storage_type(self):
        query = np.random.default_rng(4).standard_normal((5, DIM))  # float64
        ranking = self.client.rerank("text", query, top_k=5)
        self.expect(self.text, ranking, query.astype(np.float32).astype(np.float16), range(len(self.text.ids)), 5)
        ranking = self.client.rerank("numbers", query, top_k=5)
        self.expect(self.numbers, ranking, query.astype(np.float32), range(len(self.numbers.ids)), 5)

    def test_alignments_name_the_best_document_token(self):
        query = self.queries[2]
        for document in self.client.rerank("text", query, top_k=3, alignments=True):
            similarities = query.astype(np.float64) @ self.text.document(self.text.ids.index(document.id)).T
            np.testing.assert_array_equal(document.matches, similarities.argmax(axis=1))
            np.testing.assert_allclose(document.similarities, similarities.max(axis=1), rtol=0, atol=1e-4)

    def test_documents_that_come_with_the_call(self):
        query = self.queries[1]
        ordinals = [5, 17, 2]
        documents = [self.text.document(o).astype(np.float16) for o in ordinals]
        ranking = self.client.rerank_many("text", [query], documents=documents)[0]
        scores, _ = self.text.scores(query)
        self.assertEqual([d.position for d in ranking], sorted(range(3), key=lambda p: -scores[ordinals[p]]))
        self.assertEqual([d.id for d in ranking], [None] * 3)

    def test_errors_carry_the_servers_code_and_message(self):
        import grpc

        with self.assertRaises(grpc.RpcError) as raised:
            self.client.rerank("text", np.ones((2, DIM + 8), np.float32))
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn(str(DIM + 8), raised.exception.details())
        with self.assertRaises(grpc.RpcError) as raised:
            self.client.rerank("nowhere", self.queries[0])
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        for tokens in (np.ones(DIM), np.ones((1, DIM), np.int32)):
            self.assertRaises(ValueError, self.client.rerank, "text", tokens)

    def test_info_and_collections(self):
        self.assertEqual({c.name for c in self.client.info().collections}, {"text", "numbers"})
        by_name = {c.name: c for c in self.client.collections()}
        self.assertEqual(by_name["text"].num_documents, 90)
        self.assertEqual(by_name["text"].num_tokens, int(self.text.lengths.sum()))

    def test_a_stream_as_the_readme_shows(self):
        from maxsim.v1 import rerank_pb2 as pb
        from maxsim import token_matrix

        requests = [
            pb.RerankRequest(
                request_id=f"query-{i}",
                collection="text",
                queries=[pb.Query(tokens=token_matrix(tokens))],
                candidates=pb.Candidates(string_ids=pb.StringIds(ids=self.text.ids[:20])),
                top_k=3,
            )
            for i, tokens in enumerate(self.queries)
        ]
        answers = {answer.request_id: answer for answer in self.client.reranker.RerankStream(iter(requests))}
        self.assertEqual(set(answers), {request.request_id for request in requests})
        for i, query in enumerate(self.queries):
            answer = answers[f"query-{i}"]
            self.assertEqual((answer.code, answer.message), (0, ""))
            scores, _ = self.text.scores(query)
            order = np.argsort(-scores[:20], kind="stable")[:3]
            self.assertEqual(list(answer.response.results[0].string_ids.ids), [self.text.ids[o] for o in order])

    def test_each_query_may_have_its_own_candidates(self):
        lists = [[self.text.ids[o] for o in ordinals] for ordinals in ([4, 9], [80, 3, 41], [7])]
        rankings = self.client.rerank_many("text", self.queries, ids=lists)
        self.assertEqual([len(r) for r in rankings], [2, 3, 1])
        for ranking, query, ordinals in zip(rankings, self.queries, ([4, 9], [80, 3, 41], [7])):
            self.expect(self.text, ranking, query, ordinals, 10)
        rankings = self.client.rerank_many("numbers", self.queries[:2], ids=[np.array([1000, 993]), None], top_k=60)
        self.expect(self.numbers, rankings[0], self.queries[0], [0, 1], 10)
        self.expect(self.numbers, rankings[1], self.queries[1], range(60), 60)
        both = self.client.rerank_many("numbers", self.queries[:2], ids=np.array([[1000, 993], [986, 979]]))
        self.assertEqual([sorted(r.ids) for r in both], [[993, 1000], [979, 986]])

    def test_each_query_may_bring_its_own_documents(self):
        documents = [[self.text.document(o).astype(np.float16) for o in ordinals] for ordinals in ([5, 17], [2])]
        first, second = self.client.rerank_many(None, self.queries[:2], documents=documents)
        scores = [self.text.scores(query)[0] for query in self.queries[:2]]
        self.assertEqual(first.positions.tolist(), sorted(range(2), key=lambda p: -scores[0][[5, 17][p]]))
        np.testing.assert_allclose(second.scores, [scores[1][2]], rtol=1e-3)
        self.assertEqual(second.generation, 0)

    def test_a_padded_array_of_documents_is_a_list_of_them(self):
        documents = np.random.default_rng(5).standard_normal((4, 6, DIM)).astype(np.float32)
        ranking = self.client.rerank("text", self.queries[1], documents=documents)
        listed = self.client.rerank("text", self.queries[1], documents=list(documents))
        self.assertEqual(ranking.ids, listed.ids)
        self.assertEqual(sorted(ranking.ids), [0, 1, 2, 3])
        np.testing.assert_array_equal(ranking.scores, listed.scores)

    def test_a_named_collection_asks_as_the_client_does(self):
        text = self.client.collection("text")
        ids = self.text.ids[10:30]
        for mine, theirs in (
            (text.rerank(self.queries[1], ids=ids), self.client.rerank("text", self.queries[1], ids)),
            (
                text.rerank_many(self.queries[:1], ids=[ids], top_k=2)[0],
                self.client.rerank_many("text", self.queries[:1], ids, top_k=2)[0],
            ),
        ):
            self.assertEqual(mine.to_dict(), theirs.to_dict())

    def test_counts_are_those_of_what_a_filter_finds(self):
        from maxsim import Client, F, FacetValue, errors

        root = self.folder / "created"
        root.mkdir()
        server = self.secured_server(**{"store.allowed_roots": root})
        with Client(server.address, token="secret") as client:
            client.create_collection("notes", DIM, fields="lang:keyword,year:integer")
            payloads = [{"lang": ["en", "de", "fr"][n % 3], "year": 2000 + n} for n in range(10)] + [{}]
            tokens = np.ones((2, DIM), np.float16)
            written = client.upsert("notes", [(f"d{n}", tokens, payload) for n, payload in enumerate(payloads)])
            client.delete("notes", ["d9"])
            filters = (None, F.year >= 2004, 'lang != "en"', ~F.lang.exists())
            for filter in filters:
                found = client.rerank("notes", tokens, top_k=100, filter=filter)
                self.assertEqual(client.count("notes", filter=filter, min_sequence=written.sequence), len(found))
            facets = client.facets("notes", "lang", filter=F.year >= 2001, limit=1)
            self.assertEqual(list(facets), [FacetValue("de", 3)])
            self.assertEqual((facets.num_values, facets.num_documents, facets.sequence), (3, 8, written.sequence + 1))
            with self.assertRaises(errors.InvalidArgument) as raised:
                client.facets("notes", "year")
            self.assertEqual(raised.exception.field, "field")
            with self.assertRaises(errors.Unavailable):
                client.collection("notes").count(min_sequence=1000, timeout=0.2)

    def test_payload_fields_come_alone(self):
        document = self.client.rerank("text", self.queries[0], top_k=1, payload_fields=["title"])[0]
        self.assertEqual(document.payload, {"title": f"Título {document.id}"})
        document = self.client.rerank("text", self.queries[0], top_k=1, payload_fields=["author"])[0]
        self.assertEqual(document.payload, {})

    def test_pages_are_parts_of_one_ranking(self):
        from maxsim import errors

        whole = self.client.rerank("text", self.queries[2], top_k=30)
        page = self.client.rerank("text", self.queries[2], top_k=10, offset=15)
        self.assertEqual(page.to_dict()["documents"], whole[15:25].to_dict()["documents"])
        best = self.client.rerank_many("text", [self.queries[2]], top_k=30, min_score=whole.scores[4])[0]
        self.assertEqual(best.ids, whole.ids[:5])
        with self.assertRaises(errors.InvalidArgument) as raised:
            self.client.rerank("text", self.queries[2], top_k=10, offset=10_000)
        self.assertEqual((raised.exception.field, raised.exception.limit), ("offset", 10_000))

    def test_normalized_scores_are_means(self):
        sums = self.client.rerank("text", self.queries[2], top_k=5)
        means = self.client.rerank("text", self.queries[2], top_k=5, normalize=True)
        self.assertEqual(means.ids, sums.ids)
        np.testing.assert_allclose(means.scores * 32, sums.scores, rtol=1e-6)

    def test_bfloat16_queries_are_scored_as_their_floats(self):
        from maxsim import TokenVectors

        query = self.queries[1].astype(np.float32)
        rounded = TokenVectors("bf16", (query.view(np.uint32) >> 16).astype("<u2"))
        ranking = self.client.rerank("numbers", rounded, top_k=5)
        self.expect(self.numbers, ranking, rounded.to_float32(), range(60), 5)

    def test_errors_have_a_class_and_name_the_field(self):
        from maxsim import errors

        with self.assertRaises(errors.InvalidArgument) as raised:
            self.client.rerank("text", self.queries[0], weights=[1, 2, 3])
        self.assertEqual(raised.exception.field, "queries[0].weights")
        self.assertIsNone(raised.exception.retry_after)
        with self.assertRaises(errors.InvalidArgument) as raised:
            self.client.rerank_many("text", [self.queries[0], np.ones((2, DIM + 8), np.float32)])
        self.assertEqual(raised.exception.field, "queries[1].tokens.dim")
        with self.assertRaises(errors.InvalidArgument) as raised:
            self.client.rerank("text", self.queries[0], top_k=10**6)
        error = raised.exception
        self.assertEqual((error.field, error.reason), ("top_k", "LIMIT_EXCEEDED"))
        self.assertEqual((error.limit, error.limit_key), (self.client.info().limits.max_top_k, "limits.max_top_k"))
        self.assertIn(f"top_k: is {10**6}; must be at most {error.limit} ", error.message)
        with self.assertRaises(errors.NotFound) as raised:
            self.client.rerank("nowhere", self.queries[0])
        self.assertIsNone(raised.exception.field)
        with self.assertRaises(errors.FailedPrecondition):
            self.client.rerank("text", "a question for a server without an encoder")


if __name__ == "__main__":
    main()
