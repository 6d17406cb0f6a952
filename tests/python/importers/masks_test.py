"""Tests the masks of padded arrays, which say which tokens are no padding: python masks_test.py [PROGRAMS]"""

import unittest

import numpy as np
from stores_fixture import DIM, ImportTest

LENGTHS = np.array([3, 6, 1, 4])


class MasksTest(ImportTest):
    def setUp(self):
        super().setUp()
        self.mask = np.arange(8)[None] < LENGTHS[:, None]
        self.vectors = np.random.default_rng(2).standard_normal((4, 8, DIM)).astype(np.float32)
        self.path = self.folder / "x.npz"

    def save(self, mask):
        np.savez(self.path, embeddings=self.vectors, attention_mask=mask)

    def test_a_mask_of_zeros_and_ones_of_any_type(self):
        wanted = [array[:length] for array, length in zip(self.vectors, LENGTHS)]
        for dtype in (bool, np.uint8, np.int64, np.float16, np.float64):
            self.save(self.mask.astype(dtype))
            with self.subTest(dtype=dtype):
                self.assert_source("padded", self.path, range(4), wanted)
                self.assert_source("npz", self.path, range(4), wanted)

    def test_a_mask_of_other_values_is_refused(self):
        for mask, value in (
            (np.where(self.mask, 0, -np.inf).astype(np.float32), "row 0, token 3 is -inf"),
            (np.where(self.mask, 0, -1e4).astype(np.float32), "row 0, token 3 is -10000.0"),
            (np.where(self.mask, 0, -1), "row 0, token 3 is -1"),
            (np.where(self.mask, 1, np.nan), "row 0, token 3 is nan"),
            (np.where(self.mask, 255, 0).astype(np.uint8), "row 0, token 0 is 255"),
            (np.where(self.mask, 0.5, 0), "row 0, token 0 is 0.5"),
        ):
            self.save(mask)
            with self.subTest(value):
                message = value + r"; a mask holds 1 for tokens that count and 0 for padding \(of an additive mask"
                self.assert_refused("padded", self.path, message)


if __name__ == "__main__":
    unittest.main(verbosity=2)
