"""Tests delete_matching of both clients against a real server.

python deletes_test.py FOLDER_OF_THE_PROGRAMS
"""

import http.client
import json

import numpy as np

from client_fixture import DIM, RealServerTest, main, run_async


class DeletesTest(RealServerTest):
    def setUp(self):
        root = self.folder / self.id().rsplit(".", 1)[-1]
        root.mkdir()
        self.live = self.secured_server(**{"store.allowed_roots": root})
        self.payloads = {f"d{n}": {"lang": ["en", "de"][n % 2], "year": 2000 + n} for n in range(30)}

    def write(self, client, version=None):
        tokens = np.ones((2, DIM), np.float16)
        documents = [
            {"id": id, "tokens": tokens, "payload": payload, "version": version}
            for id, payload in self.payloads.items()
        ]
        return client.upsert("notes", documents)

    def create(self, client):
        client.create_collection("notes", DIM, fields="lang:keyword,year:integer")

    def ids(self, client, **named):
        return [document.id for document in client.scroll("notes", **named)]

    def test_what_a_filter_finds_is_deleted(self):
        from maxsim import Client, DeleteSummary, F

        with Client(self.live.address, token="secret") as client:
            self.create(client)
            written = self.write(client)
            both = (F.lang == "en") & (F.year < 2010)
            gone = self.ids(client, filter=both)
            self.assertEqual(len(gone), 5)
            deleted = client.delete_matching("notes", both, min_sequence=written.sequence)
            self.assertEqual(deleted, DeleteSummary(5, 0, 0, written.sequence + 5))
            left = sorted({*self.payloads} - {*gone})
            self.assertEqual(self.ids(client, min_sequence=deleted.sequence), left)
            again = client.delete_matching("notes", both)
            self.assertEqual(again, DeleteSummary(0, 0, 0, deleted.sequence))
            self.assertEqual(client.collection("notes").delete_matching("year >= 2020").num_deleted, 10)
            # This filter matches every document, and says so.
            self.assertEqual(client.delete_matching("notes", "exists(lang) or not exists(lang)").num_deleted, 15)
            self.assertEqual(client.count("notes"), 0)

    def test_newer_versions_stay(self):
        from maxsim import Client, F

        with Client(self.live.address, token="secret") as client:
            self.create(client)
            self.write(client, version=5)
            newer = {"id": "d0", "tokens": np.ones((1, DIM), np.float16), "payload": {"lang": "en"}, "version": 9}
            client.upsert("notes", [newer])
            self.assertEqual(client.delete_matching("notes", F.lang == "en", version=5).num_deleted, 0)
            deleted = client.delete_matching("notes", F.lang == "en", version=7)
            self.assertEqual((deleted.num_deleted, deleted.num_stale), (14, 0))
            self.assertEqual(self.ids(client, filter=F.lang == "en"), ["d0"])

    def test_what_is_wrong_is_named(self):
        from maxsim import Client, errors

        with Client(self.live.address, token="secret") as client:
            self.create(client)
            self.write(client)
            for wrong in ("", "colour = 1", "year ="):
                with self.assertRaises(errors.InvalidArgument) as caught:
                    client.delete_matching("notes", wrong)
                self.assertEqual(caught.exception.field, "filter_text")
            with self.assertRaises(errors.FailedPrecondition):
                client.delete_matching("text", "year < 2000")
            with self.assertRaises(errors.NotFound):
                client.delete_matching("nowhere", "year < 2000")
            self.assertEqual(client.count("notes"), 30)

    def test_a_token_that_may_only_search_deletes_nothing(self):
        from maxsim import Client, errors

        root = self.folder / "writers"
        root.mkdir()
        tokens = self.folder / "writers-tokens"
        tokens.write_text("writes\n")
        server = self.secured_server(**{"store.allowed_roots": root, "auth.write_tokens_file": tokens})
        with Client(server.address, token="writes") as client:
            self.create(client)
            self.write(client)
        with Client(server.address, token="secret") as client:
            with self.assertRaisesRegex(errors.PermissionDenied, "the bearer token may search"):
                client.delete_matching("notes", "year >= 2000")
            self.assertEqual(self.delete_over_http(server, "secret"), 403)
            self.assertEqual(client.count("notes"), 30)
        self.assertEqual(self.delete_over_http(server, "writes"), 200)
        with Client(server.address, token="secret") as client:
            self.assertEqual(client.count("notes"), 0)

    def delete_over_http(self, server, token):
        """Deletes all documents by a filter, and returns the answer's status."""
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        body = json.dumps({"filter": "year >= 2000"})
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("DELETE", "/v1/collections/notes/documents", body, headers)
        status = connection.getresponse().status
        connection.close()
        return status

    def test_an_asynchronous_client_deletes_the_same(self):
        from maxsim import AsyncClient, Client, F

        with Client(self.live.address, token="secret") as client:
            self.create(client)
            self.write(client)

        async def delete():
            async with AsyncClient(self.live.address, token="secret") as client:
                notes = client.collection("notes")
                deleted = await notes.delete_matching(F.lang == "de")
                return deleted.num_deleted, [one.id async for one in notes.scroll(min_sequence=deleted.sequence)]

        self.assertEqual(run_async(delete()), (15, sorted(f"d{n}" for n in range(0, 30, 2))))


if __name__ == "__main__":
    main()
