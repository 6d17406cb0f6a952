"""Tests pickled lists of arrays in an environment without torch: python pickles_test.py [PROGRAMS]"""

import pickle
import unittest

import numpy as np
from stores_fixture import DIM, ImportTest


class PicklesTest(ImportTest):
    def setUp(self):
        super().setUp()
        self.documents = [np.full((number + 1, DIM), number, np.float32) for number in range(3)]

    def save(self, value, name="docs.pkl"):
        path = self.folder / name
        path.write_bytes(pickle.dumps(value))
        return path

    def test_every_usual_ending_of_a_pickle_is_one(self):
        for name in ("a.pkl", "b.pickle", "c.p"):
            with self.subTest(name):
                self.assert_source("pt", self.save(self.documents, name), range(3), self.documents)
        self.assert_source("pt", self.folder, [0, 1, 2, 3, 4, 5, 6, 7, 8], self.documents * 3, num_documents=None)

    def test_an_id_that_is_null_is_an_error_and_no_number(self):
        columns = {"v": self.documents, "ids": ["a", None, "c"]}
        message = "docs.pkl: document 1: its id is None; must be a string or an integer"
        self.assert_refused("pt", self.save(columns), message, vectors_column="v", id_column="ids")
        keys = {7: self.documents[0], None: self.documents[1]}
        self.assert_refused("pt", self.save(keys), message)
        columns = {"v": self.documents, "ids": [True, 2, 3]}
        self.assert_refused("pt", self.save(columns), "its id is True", vectors_column="v", id_column="ids")


if __name__ == "__main__":
    unittest.main(verbosity=2)
