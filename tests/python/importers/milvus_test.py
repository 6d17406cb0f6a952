"""Tests imports of Milvus' collections, which Milvus Lite makes in this process.

python milvus_test.py [PROGRAMS]

Milvus Lite does not support arrays of structs. The test of that layout uses a mock client, which returns fields as
pymilvus describes them and entities as in Milvus' guide."""

import os
import unittest
import unittest.mock

import numpy as np
import pymilvus
from pymilvus.client.utils import convert_struct_fields_to_user_format

from collections_fixture import COUNT, StoresTest
from stores_fixture import DIM, string_ids


class MilvusTest(StoresTest):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "milvus.db"

    def fill(self, name, order, ids, data_type=pymilvus.DataType.FLOAT_VECTOR, with_position=True):
        """Inserts one entity per token, in the given order of (document, token). Only the first token of a document has
        its title."""
        client = pymilvus.MilvusClient(str(self.path))
        schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
        schema.add_field("pk", pymilvus.DataType.INT64, is_primary=True)
        id_type = pymilvus.DataType.INT64 if isinstance(ids[0], int) else pymilvus.DataType.VARCHAR
        schema.add_field("doc_id", id_type, **({} if isinstance(ids[0], int) else {"max_length": 100}))
        if with_position:
            schema.add_field("seq_id", pymilvus.DataType.INT16)
        schema.add_field("vector", data_type, dim=DIM)
        schema.add_field("title", pymilvus.DataType.VARCHAR, max_length=100)
        index = client.prepare_index_params()
        index.add_index("vector", index_type="FLAT", metric_type="IP")
        client.create_collection(name, schema=schema, index_params=index)
        rows = []
        for key, (document, token) in enumerate(order):
            title = self.payloads[document]["title"] if token == 0 else ""
            row = {
                "pk": key,
                "doc_id": ids[document],
                "vector": self.documents[document][token].tolist(),
                "title": title,
            }
            rows.append({**row, "seq_id": token} if with_position else row)
        client.insert(name, rows)
        client.flush(name)
        client.close()

    def tokens(self):
        return [(n, token) for n in range(COUNT) for token in range(len(self.documents[n]))]

    def test_an_entity_for_each_token(self):
        titles = [{"title": payload["title"]} for payload in self.payloads]
        ids = string_ids(COUNT)
        self.fill("pages", self.tokens(), ids)
        columns = {"payload_columns": ("*",)}
        self.assert_source("milvus", self.path, ids, self.documents, titles, **columns)
        self.assert_imports("milvus", self.path, ids, self.documents, titles, **columns)
        self.fill("bare", self.tokens(), list(range(COUNT)), with_position=False)
        self.assert_refused("milvus", self.path, "give --table, one of bare, pages|give --table, one of pages, bare")
        source = self.assert_source("milvus", self.path, range(COUNT), self.documents, table="bare")
        self.assertIn("field title is not taken; --payload-columns takes it", source.notes)
        message = "collection bare: --token-column x: there is no such field; there are pk, doc_id, vector, title"
        self.assert_refused("milvus", self.path, message, table="bare", token_column="x")
        self.assert_refused("milvus", self.path, "field 'pk' is not a payload", table="bare", payload_columns=("pk",))

    def test_tokens_that_lie_apart_and_out_of_order(self):
        order = self.tokens()
        np.random.default_rng(3).shuffle(order)
        ids = string_ids(COUNT)
        self.fill("pages", order, ids)
        first = list(dict.fromkeys(document for document, _ in order))
        titles = [{"title": self.payloads[n]["title"]} for n in first]
        wanted = [ids[n] for n in first], [self.documents[n] for n in first], titles
        self.assert_source("milvus", self.path, *wanted, payload_columns=("title",))

    def test_one_vector_for_each_document_is_refused(self):
        client = pymilvus.MilvusClient(str(self.path))
        client.create_collection("docs", dimension=DIM)
        client.close()
        self.assert_refused(
            "milvus", self.path, "holds one vector; if entities are tokens, give .* --id-column: id, vector"
        )
        self.assert_refused("milvus", self.folder / "none.db", "no such file or folder")

    def test_a_pipe_is_refused_and_not_waited_for(self):
        message = "is a pipe or a device; must be a regular file"
        os.mkfifo(self.path)
        self.assert_refused("milvus", self.path, f"milvus.db: {message}")
        self.path.unlink()
        self.path.symlink_to("/dev/zero")
        self.assert_refused("milvus", self.path, f"milvus.db: {message}")
        self.path.unlink()
        self.fill("pages", self.tokens(), string_ids(COUNT))
        self.assert_source("milvus", self.path, string_ids(COUNT), self.documents)
        # Milvus Lite keeps a database in a file up to version 2, in a folder since version 3.
        if self.path.is_dir():
            os.mkfifo(self.path / "pipe")
            self.assert_refused("milvus", self.path, f"pipe: {message}")

    def test_an_array_of_structs(self):
        """A mock replaces the client, because Milvus Lite does not support this layout."""
        sub_fields = [
            {"name": "chunks[text]", "type": pymilvus.DataType.ARRAY, "element_type": pymilvus.DataType.VARCHAR},
            {
                "name": "chunks[emb]",
                "type": pymilvus.DataType._ARRAY_OF_VECTOR,
                "element_type": pymilvus.DataType.FLOAT_VECTOR,
                "params": {"dim": DIM, "max_capacity": 100},
            },
        ]
        structs = convert_struct_fields_to_user_format([{"name": "chunks", "fields": sub_fields}])
        fields = [
            {"name": "id", "type": pymilvus.DataType.INT64, "params": {}, "is_primary": True},
            {"name": "title", "type": pymilvus.DataType.VARCHAR, "params": {"max_length": 100}},
            {"name": "title_vector", "type": pymilvus.DataType.FLOAT_VECTOR, "params": {"dim": 5}},
            *structs,
        ]
        entities = [
            {"id": n, "title": payload["title"], "title_vector": [0.0] * 5}
            | {"chunks": [{"text": "x", "emb": vector.tolist()} for vector in document]}
            for n, (document, payload) in enumerate(zip(self.documents, self.payloads))
        ]
        client = unittest.mock.Mock()
        client.list_collections.return_value = ["books"]
        client.describe_collection.return_value = {"fields": fields}
        client.query.return_value = [{"count(*)": COUNT}]
        client.query_iterator.side_effect = lambda *_, **options: FakeIterator(entities, options)
        patch = unittest.mock.patch("maxsim.importers.databases.milvus.MilvusClient", return_value=client)
        self.addCleanup(patch.stop)
        patch.start()
        titles = [{"title": payload["title"]} for payload in self.payloads]
        for options in ({}, {"vectors_column": "chunks"}, {"vectors_column": "chunks[emb]"}):
            for columns in (("title",), ("*",)):
                with self.subTest(columns, **options):
                    wanted = range(COUNT), self.documents, titles
                    self.assert_source("milvus", "http://milvus", *wanted, payload_columns=columns, **options)
        self.assert_refused("milvus", "http://milvus", "--token-column: .* holds all tokens", token_column="title")


class FakeIterator:
    """Of entities, as pymilvus' query iterator gives them."""

    def __init__(self, entities, options):
        self._fields = options["output_fields"]
        self._step = options["batch_size"]
        self._left = list(entities)

    def next(self):
        page, self._left = self._left[: self._step], self._left[self._step :]
        return [{key: row[key] for key in row if "*" in self._fields or key in self._fields} for row in page]

    def close(self):
        pass


if __name__ == "__main__":
    unittest.main(verbosity=2)
