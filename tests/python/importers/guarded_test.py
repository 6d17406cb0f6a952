"""Tests that every error about data in a source contains the source's name: python guarded_test.py [PROGRAMS]"""

import unittest
import zipfile
import zlib

import numpy as np
from stores_fixture import ImportTest

from maxsim.importers.readers.guarded import guarded
from maxsim.importers.source import PackedDocuments, PackedSource, SourceDocument, SourceError

ERRORS = (
    RecursionError("deep"),
    OverflowError(),
    KeyError("x"),
    MemoryError(),
    zipfile.BadZipFile("cut"),
    zlib.error(),
)


class Failing:
    """A source that yields one document and then raises `error`."""

    kind, dim, num_documents, notes = "failing", 8, 1, ["a note"]
    document = SourceDocument(1, np.zeros((2, 8), np.float32))

    def __init__(self, error):
        self.error = error

    def __iter__(self):
        yield self.document
        raise self.error


class FailingPacked(Failing):
    def packed(self):
        yield PackedDocuments([1], self.document.vectors, np.array([2]))
        raise self.error


class GuardedTest(ImportTest):
    def failing(self, error):
        raise error

    def test_errors_of_opening_and_reading_name_the_source(self):
        for error in ERRORS:
            message = f"^a/b: cannot be read: {type(error).__name__}"
            with self.subTest(error):
                with self.assertRaisesRegex(SourceError, message):
                    guarded(lambda error=error: self.failing(error), "a/b")
                documents = iter(guarded(lambda error=error: Failing(error), "a/b"))
                self.assertIs(next(documents), Failing.document)
                self.assertRaisesRegex(SourceError, message, next, documents)
                packed = guarded(lambda error=error: FailingPacked(error), "a/b").packed()
                self.assertEqual(next(packed).ids, [1])
                self.assertRaisesRegex(SourceError, message, next, packed)

    def test_errors_that_name_the_source_or_are_no_fault_of_the_data_stay_as_they_are(self):
        for error in (SourceError("x.npz: is cut off"), FileNotFoundError(2, "no", "x"), AttributeError("x")):
            with self.subTest(error), self.assertRaises(type(error)) as caught:
                list(guarded(lambda error=error: Failing(error), "a/b"))
            self.assertIs(caught.exception, error)

    def test_a_source_is_packed_where_it_was(self):
        self.assertIsInstance(guarded(lambda: FailingPacked(None), "x"), PackedSource)
        source = guarded(lambda: Failing(None), "x")
        self.assertNotIsInstance(source, PackedSource)
        self.assertEqual((source.kind, source.dim, source.num_documents, source.notes), ("failing", 8, 1, ["a note"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
