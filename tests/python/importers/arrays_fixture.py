"""Makes documents as arrays: packed with lengths or offsets, and padded with a mask."""

import numpy as np

from stores_fixture import ImportTest, random_documents, string_ids

COUNT = 50


def offsets_of(lengths):
    return np.concatenate([[0], np.cumsum(lengths)])


def padded(documents, longest, at_end=False):
    """Returns a padded array [N, longest, dim] and its mask. The padding has values that importers must not read."""
    array = np.full((len(documents), longest, documents[0].shape[1]), 7777.0, documents[0].dtype)
    mask = np.zeros((len(documents), longest), bool)
    for row, document in enumerate(documents):
        kept = slice(longest - len(document), None) if at_end else slice(0, len(document))
        array[row, kept] = document
        mask[row, kept] = True
    return array, mask


class ArraysTest(ImportTest):
    def setUp(self):
        super().setUp()
        self.ids = string_ids(COUNT)
        self.documents = random_documents(COUNT)
        self.lengths = np.array([len(array) for array in self.documents])
        self.tokens = np.concatenate(self.documents)
        self.titles = [f"title {n}" for n in range(COUNT)]
        self.payloads = [{"title": title} for title in self.titles]
