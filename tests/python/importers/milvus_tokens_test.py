"""Tests Milvus collections in which each entity is one token: python milvus_tokens_test.py [PROGRAMS]"""

import unittest

from stores_fixture import DIM  # It puts the packages on the path.

from maxsim.importers.databases.milvus_tokens import TokenEntities, VectorField
from maxsim.importers.source import SourceError


class DeletedEntitiesTest(unittest.TestCase):
    def test_a_document_that_is_deleted_meanwhile_is_named(self):
        pages = iter(
            [[{"d": "a"}, {"d": "b"}, {"d": "a"}], [{"d": "a", "v": [1.0] * DIM}, {"d": "a", "v": [1.0] * DIM}]]
        )
        vectors = VectorField("v", DIM, "f32")
        entities = TokenEntities("docs", lambda filter, names, at_once: iter([next(pages)]), "d", None, vectors, [])
        with self.assertRaisesRegex(SourceError, 'docs: document "b": has 0 tokens, but had 1 before'):
            list(entities.documents())


if __name__ == "__main__":
    unittest.main(verbosity=2)
