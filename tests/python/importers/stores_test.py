"""Tests imports of collections of Qdrant and LanceDB, which their own libraries make in this process.

python stores_test.py [PROGRAMS]

There is no Qdrant server here. For tests of reading from a server, the importer gets a client in qdrant-client's local
mode instead of a connected one."""

import base64
import datetime
import json
import os
import pickle
import resource
import sqlite3
import unittest
import unittest.mock
import uuid

import lancedb
import numpy as np
import pyarrow as pa
import qdrant_client
from qdrant_client import models

from collections_fixture import COUNT, StoresTest
from stores_fixture import DIM, random_documents, string_ids


def multivector(distance):
    config = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    return models.VectorParams(size=DIM, distance=distance, multivector_config=config)


class QdrantTest(StoresTest):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "qdrant"
        self.client = qdrant_client.QdrantClient(path=str(self.path))
        self.addCleanup(self.client.close)

    def fill(self, collection, ids, name=None, distance=models.Distance.DOT, **others):
        """Writes the documents to a new collection with one multivector, which has no name if `name` is None. Otherwise
        the collection also has the vectors `others`."""
        config = multivector(distance) if name is None else {name: multivector(distance), **others}
        self.client.create_collection(collection, vectors_config=config)
        points = []
        for id, document, payload in zip(ids, self.documents, self.payloads):
            rows = document.tolist()
            vector = rows if name is None else {name: rows, **{other: [1.0] * 4 for other in others}}
            points.append(models.PointStruct(id=id, vector=vector, payload=payload))
        self.client.upsert(collection, points)

    def from_server(self):
        """Returns a server's address. If the importer opens this address, it gets the client of this test's folder."""
        client = unittest.mock.patch.object(qdrant_client, "QdrantClient", return_value=self.client)
        self.addCleanup(client.stop)
        client.start()
        return "http://qdrant.invalid:6333"

    def test_integer_ids_payloads_and_a_multivector_without_a_name(self):
        ids = [2**40 + n for n in range(COUNT)]
        self.fill("docs", ids)
        self.client.delete("docs", models.PointIdsList(points=[ids[7]]))
        self.client.set_payload("docs", {"new": True}, points=[ids[3]])
        self.client.update_vectors("docs", [models.PointVectors(id=ids[5], vector=(2 * self.documents[5]).tolist())])
        self.documents[5] = 2 * self.documents[5]
        self.payloads[3] = {**self.payloads[3], "new": True}
        kept = [n for n in range(COUNT) if n != 7]
        wanted = [ids[n] for n in kept], [self.documents[n] for n in kept], [self.payloads[n] for n in kept]
        columns = {"payload_columns": ("*",)}
        self.assert_source("qdrant", self.from_server(), *wanted, **columns)
        self.client.close()
        found = {document.id: document for document in self.open("qdrant", self.path, **columns)}
        self.assert_documents([found[id] for id in wanted[0]], *wanted)
        self.assert_imports("qdrant", self.path, *self.in_folder_order(wanted), **columns)

    def in_folder_order(self, wanted):
        """Returns the documents in the folder's order, in which changed points come last."""
        order = [document.id for document in self.open("qdrant", self.path)]
        at = [wanted[0].index(id) for id in order]
        return [[part[n] for n in at] for part in wanted]

    def open(self, kind, path, **options):
        from maxsim.importers import ImportOptions, open_source

        return open_source(kind, str(path), ImportOptions(**options))

    def test_uuids_and_a_named_multivector_among_others(self):
        ids = sorted(str(uuid.UUID(int=(n * 2**100) % 2**128 + n)) for n in range(COUNT))
        self.fill("docs", ids, "colbert", dense=models.VectorParams(size=4, distance=models.Distance.COSINE))
        self.fill("others", range(COUNT))
        titles = [{"title": payload["title"]} for payload in self.payloads]
        for path in (self.from_server(), self.path):
            with self.subTest(path):
                columns = {"table": "docs", "payload_columns": ("title", "absent")}
                source = self.assert_source("qdrant", path, ids, self.documents, titles, **columns)
                left = [name for name in self.payloads[0] if name != "title"]
                noted = [note for note in source.notes if "--payload-columns" in note]
                plural = ("s", "are", "them") if len(left) > 1 else ("", "is", "it")
                text = "field{} NAMES {} not taken; --payload-columns takes {}".format(*plural)
                self.assertEqual(noted, [text.replace("NAMES", ", ".join(left))])
                self.assert_refused("qdrant", path, "give --table, the name of a collection: 'docs', 'others'")
                message = "give --vectors-column, the name of a multivector: 'colbert'"
                self.assert_refused("qdrant", path, message, table="docs", vectors_column="x")
                message = "vector 'dense' has no multivector_config"
                self.assert_refused("qdrant", path, message, table="docs", vectors_column="dense")

    def test_integers_and_uuids_together_become_strings(self):
        ids = [*range(20), *sorted(str(uuid.UUID(int=2**100 * n + 1)) for n in range(20))]
        self.fill("docs", ids)
        for path in (self.from_server(), self.path):
            with self.subTest(path):
                source = self.assert_source("qdrant", path, [str(id) for id in ids], self.documents)
                self.assertIn("ids: integers and UUIDs, all become strings", source.notes)

    def test_cosine_gives_token_vectors_of_length_1_as_the_client_does(self):
        self.fill("docs", range(COUNT), distance=models.Distance.COSINE)
        records, _ = self.client.scroll("docs", limit=COUNT, with_vectors=True)
        given = [np.array(record.vector, np.float32) for record in records]
        # qdrant-client's local mode stores vectors unchanged, but a server stores them normalised.
        from_folder = self.open("qdrant", self.path)
        for document, wanted in zip(from_folder, given):
            self.assertTrue(np.array_equal(document.vectors, wanted))
        self.assertIn("distance Cosine: token vectors have length 1", " ".join(from_folder.notes))
        for document, wanted in zip(self.open("qdrant", self.from_server()), given):
            np.testing.assert_allclose(document.vectors, wanted, rtol=0, atol=1e-6)

    def test_a_hostile_pickle_in_a_folder_is_refused_and_runs_nothing(self):
        victim = self.folder / "victim"

        class Hostile:
            def __reduce__(self):
                return (open, (str(victim), "w"))

        self.fill("docs", range(COUNT))
        self.client.close()
        for column in ("point", "id"):
            database = self.path / "collection" / "docs" / "storage.sqlite"
            whole = database.read_bytes()
            value = pickle.dumps(Hostile())
            if column == "id":
                value = base64.b64encode(value).decode()
            connection = sqlite3.connect(database)
            connection.execute(f"UPDATE points SET {column} = ? WHERE rowid = 5", (value,))
            connection.commit()
            connection.close()
            with self.subTest(column):
                self.assert_refused("qdrant", self.path, r"storage\.sqlite: row 5: .* calls io\.open, which is refused")
            database.write_bytes(whole)
        self.assertFalse(victim.exists())

    def test_a_pickle_in_a_folder_takes_no_memory_that_it_only_states(self):
        self.fill("docs", range(COUNT))
        self.client.close()
        connection = sqlite3.connect(self.path / "collection" / "docs" / "storage.sqlite")
        stated = base64.b64encode(b"\x80\x02Nr" + (2**27).to_bytes(4, "little") + b".").decode()
        connection.execute("UPDATE points SET id = ? WHERE rowid = 5", (stated,))
        connection.commit()
        connection.close()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.assert_refused("qdrant", self.path, r"row 5: id None is neither an integer nor a UUID")
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 200 << 10)

    def test_points_with_times_and_shared_values(self):
        self.fill("docs", range(COUNT))
        self.client.close()
        database = self.path / "collection" / "docs" / "storage.sqlite"
        connection = sqlite3.connect(database)
        when = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)
        shared = []
        for _ in range(40):
            shared = [shared, shared]
        point = models.PointStruct(id=4, vector=self.documents[4].tolist(), payload={"when": when})
        update = "UPDATE points SET point = ? WHERE rowid = 5"
        connection.execute(update, (pickle.dumps(point),))
        connection.commit()
        found = list(self.open("qdrant", self.path, payload_columns=("when",)))
        self.assertEqual(found[4].payload, {"when": when})
        self.assertTrue(np.array_equal(found[4].vectors, self.documents[4]))
        for field, message in (("vector", "its vector is .* must be a list of lists"), ("id", "id .* is neither")):
            changed = point.model_copy(update={field: shared})
            connection.execute(update, (pickle.dumps(changed),))
            connection.commit()
            self.assert_refused("qdrant", self.path, f"row 5: {message}")
        connection.close()

    def test_what_is_no_table_of_points_is_refused(self):
        self.fill("docs", range(COUNT))
        self.client.close()
        connection = sqlite3.connect(self.path / "collection" / "docs" / "storage.sqlite")
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        key = base64.b64encode(pickle.dumps(1)).decode()
        for sql in (
            f"CREATE VIEW points AS {endless} SELECT i AS rowid, '{key}' AS id, x'80' AS point FROM n",
            "CREATE TABLE points (id TEXT, point BLOB AS (zeroblob(1000000000)))",
            "CREATE VIRTUAL TABLE points USING fts5(id, point)",
        ):
            connection.execute("DROP TABLE IF EXISTS points")
            connection.execute(sql)
            connection.commit()
            with self.subTest(sql[:15]):
                self.assert_refused("qdrant", self.path, r"storage\.sqlite: points is not a plain table")
            if sql.startswith("CREATE VIEW"):
                connection.execute("DROP VIEW points")
        connection.close()

    def test_a_collection_outside_of_the_folder_is_refused(self):
        self.fill("docs", range(COUNT))
        self.client.close()
        meta = self.path / "meta.json"
        content = json.loads(meta.read_text())
        config = content["collections"].pop("docs")
        for name in ("..", "../collection/docs", str(self.path / "collection" / "docs"), "a\\b", ""):
            meta.write_text(json.dumps({"collections": {name: config}, "aliases": {}}))
            with self.subTest(name):
                self.assert_refused("qdrant", self.path, "which is not the name of a folder")

    def test_what_is_no_folder_is_refused(self):
        self.assert_refused("qdrant", self.folder, "has no meta.json")
        self.assertFalse((self.folder / "meta.json").exists())
        (self.folder / "meta.json").write_text("[]")
        self.assert_refused("qdrant", self.folder, r"meta\.json: does not describe collections")


class LanceDbTest(StoresTest):
    def make(self, name, value_type, ids):
        database = lancedb.connect(str(self.folder / "lance"))
        vectors = pa.array([array.tolist() for array in self.documents], pa.list_(pa.list_(value_type, DIM)))
        titles = [payload["title"] for payload in self.payloads]
        return database.create_table(name, pa.table({"id": ids, "vector": vectors, "title": titles}))

    def test_a_multivector_column(self):
        path = self.folder / "lance"
        titles = [{"title": payload["title"]} for payload in self.payloads]
        columns = {"payload_columns": ("title",)}
        ids = string_ids(COUNT)
        self.make("docs", pa.float32(), ids)
        self.assert_source("lancedb", path, ids, self.documents, titles, **columns)
        self.assert_source("lancedb", path / "docs.lance", ids, self.documents, titles, **columns)
        self.assert_imports("lancedb", path, ids, self.documents, titles, **columns)
        numbers = list(range(7, COUNT + 7))
        self.make("halves", pa.float16(), numbers)
        self.assert_refused("lancedb", path, "give --table, one of docs, halves")
        self.assert_source("lancedb", path, numbers, self.documents, table="halves")

    def test_a_pipe_in_its_folder_is_refused_and_not_waited_for(self):
        self.make("docs", pa.float32(), string_ids(COUNT))
        path = self.folder / "lance"
        os.mkfifo(path / "docs.lance" / "data" / "pipe.lance")
        message = "pipe.lance: is a pipe or a device; must be a regular file"
        self.assert_refused("lancedb", path, message)
        self.assert_refused("lancedb", path / "docs.lance", message)

    def test_rows_that_were_deleted_and_added(self):
        table = self.make("docs", pa.float32(), list(range(COUNT)))
        table.delete("id < 10")
        table.add(table.to_arrow().slice(0, 1).set_column(0, "id", pa.array([99])))
        documents = [*self.documents[10:], self.documents[10]]
        self.assert_source("lancedb", self.folder / "lance", [*range(10, COUNT), 99], documents)

    def test_more_rows_than_a_search_gives_by_default(self):
        self.documents = random_documents(2500, seed=6)
        self.payloads = [{"title": ""}] * 2500
        self.make("docs", pa.float32(), list(range(2500)))
        self.assert_source("lancedb", self.folder / "lance", range(2500), self.documents)

    def test_one_vector_a_row_is_refused(self):
        database = lancedb.connect(str(self.folder / "lance"))
        vectors = pa.array(np.zeros((3, DIM), np.float32).tolist(), pa.list_(pa.float32(), DIM))
        database.create_table("docs", pa.table({"id": [1, 2, 3], "vector": vectors}))
        self.assert_refused("lancedb", self.folder / "lance", r"column 'vector': .* one list a row; give --dim")
        self.assert_refused("lancedb", self.folder / "none", "no such folder")


if __name__ == "__main__":
    unittest.main(verbosity=2)
