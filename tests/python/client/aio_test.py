"""Tests maxsim.AsyncClient with the real programs. It must give the same answers as Client, which client_test.py
compares with NumPy.

python aio_test.py FOLDER_OF_THE_PROGRAMS
"""

import asyncio
import inspect

import numpy as np

from client_fixture import RealServerTest, main, run_async

from maxsim import AsyncClient, Client, errors
from maxsim.methods import RerankMethods


class AsyncClientTest(RealServerTest):
    def run_with(self, work, target=None, **options):
        """Runs a coroutine of a client to its end."""

        async def run():
            async with AsyncClient(target or self.server.address, **options) as client:
                return await work(client)

        return run_async(run())

    def test_it_has_the_methods_and_arguments_of_the_other(self):
        def public(kind):
            return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}

        mine, theirs = public(AsyncClient), public(Client)
        # A Client sets these three attributes in its constructor. An AsyncClient has properties for them.
        self.assertEqual({*mine} - {"reranker", "documents", "admin"}, {*theirs})
        for name, method in {**theirs, "__init__": Client.__init__}.items():
            other = AsyncClient.__init__ if name == "__init__" else mine[name]
            self.assertEqual([*inspect.signature(other).parameters], [*inspect.signature(method).parameters], name)
            for parameter in inspect.signature(method).parameters.values():
                self.assertNotEqual(parameter.kind, parameter.VAR_KEYWORD, name)
        self.assertTrue(issubclass(Client, RerankMethods))

    def test_it_answers_as_the_other_does(self):
        ids, documents = self.text.ids[3:40], [self.text.document(o) for o in (3, 1)]

        async def ask(client):
            return [
                await client.rerank("text", self.queries[0], ids, payloads=True, alignments=True),
                *await client.rerank_many("text", self.queries, [ids[:3], ids[3:5], None]),
                await client.collection("numbers").rerank(self.queries[2], top_k=4),
                await client.rerank(None, self.queries[1], documents=documents),
            ]

        with Client(self.server.address) as client:
            wanted = [
                client.rerank("text", self.queries[0], ids, payloads=True, alignments=True),
                *client.rerank_many("text", self.queries, [ids[:3], ids[3:5], None]),
                client.collection("numbers").rerank(self.queries[2], top_k=4),
                client.rerank(None, self.queries[1], documents=documents),
            ]
        got = self.run_with(ask)
        self.assertEqual([r.to_dict() for r in got], [r.to_dict() for r in wanted])
        self.assertEqual([len(r) for r in got], [10, 3, 2, 10, 4, 2])

    def test_many_calls_at_once_on_one_connection(self):
        async def ask(client):
            calls = [client.rerank("text", self.queries[1], [id]) for id in self.text.ids]
            return await asyncio.gather(*calls)

        rankings = self.run_with(ask)
        self.assertEqual([r.ids for r in rankings], [[id] for id in self.text.ids])

    def test_a_client_may_be_made_before_the_loop_runs(self):
        client = AsyncClient(self.server.address)

        async def ask():
            async with client:
                return await client.info()

        self.assertEqual({c.name for c in run_async(ask()).collections}, {"text", "numbers"})

    def test_every_call_carries_the_token(self):
        server = self.secured_server()

        async def ask(client):
            from maxsim.v1 import admin_pb2, rerank_pb2

            request = rerank_pb2.RerankRequest(request_id="s-1", collection="nowhere")
            stream = client.reranker.RerankStream(iter([request]))
            return [
                (await client.info()).collections[0].name,
                (await client.collections())[0].name,
                (await client.admin.ListCollections(admin_pb2.ListCollectionsRequest())).collections[0].name,
                (await client.rerank("text", self.queries[0], self.text.ids[:1])).ids[0],
                [answer.request_id async for answer in stream],
            ]

        got = self.run_with(ask, server.address, token="secret", client_id="shop")
        self.assertEqual(got, ["text", "text", "text", self.text.ids[0], ["s-1"]])
        for call in (
            lambda client: client.info(),
            lambda client: client.collections(),
            lambda client: client.rerank("text", self.queries[0]),
        ):
            with self.assertRaises(errors.Unauthenticated):
                self.run_with(call, server.address)

    def test_collections_are_loaded_reloaded_and_unloaded(self):
        server = self.secured_server()

        async def work(client):
            info = await client.load("second", str(self.collections["numbers"]), residency="host")
            self.assertEqual((info.name, info.num_documents, info.residency), ("second", 60, "host"))
            with self.assertRaises(errors.AlreadyExists):
                await client.load("second", str(self.collections["numbers"]))
            self.assertFalse(await client.reload("second"))
            await client.unload("second")
            with self.assertRaises(errors.NotFound):
                await client.unload("second")
            with self.assertRaises(errors.PermissionDenied):
                await client.load("third", "/etc")

        self.run_with(work, server.address, token="secret")

    def test_a_cancelled_call_ends(self):
        async def work(client):
            task = asyncio.ensure_future(client.rerank("text", np.ones((32, 48), np.float32)))
            await asyncio.sleep(0)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            return await client.rerank("text", self.queries[0], self.text.ids[:1])

        self.assertEqual(len(self.run_with(work)), 1)


if __name__ == "__main__":
    main()
