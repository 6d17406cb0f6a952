"""Tests parts of maxsim.collection: conversions (compared with NumPy's) and the search for repeated ids.

python parts_test.py
"""

import unittest
from unittest import mock

import numpy as np

from collection_fixture import main
from maxsim.collection import ids, values
from maxsim.collection.errors import CollectionError
from maxsim.collection.workers import Workers


class ValuesTest(unittest.TestCase):
    def test_widening_every_finite_f16_is_exact(self):
        every = np.arange(65536, dtype=np.uint16).view(np.float16)
        finite = every[np.isfinite(every)]
        widened = values.widen_f16(finite, np.empty(len(finite), np.float32))
        self.assertTrue((widened.view(np.uint32) == finite.astype(np.float32).view(np.uint32)).all())

    def test_narrowing_to_f16_rounds_as_numpy_does(self):
        rng = np.random.default_rng(1)
        for low, high in ((0, 1 << 32), (0x33000000, 0x48000000)):
            bits = rng.integers(low, high, 300_000, dtype=np.uint32)
            bits[::2] &= 0xFFFFF000
            wide = bits.view(np.float32)
            with np.errstate(over="ignore", invalid="ignore"):
                expected = wide.astype(np.float16)
            narrowed = values.convert(wide.reshape(-1, 8), "f32", "f16", Workers(3)).reshape(-1)
            self.assertTrue((narrowed.view(np.uint16) == expected.view(np.uint16)).all())

    def test_the_first_unusable_value_is_found(self):
        for data_type, dtype, wrong in (("f32", np.float32, (np.nan, np.inf, 1.1e12, -2e12)),
                                        ("f16", np.float16, (np.nan, -np.inf))):  # fmt: skip
            for value in wrong:
                rows = np.full((7, 8), 3, dtype)
                self.assertIsNone(values.find_unusable(rows, data_type))
                rows[4, 5] = rows[6, 0] = value
                self.assertEqual(values.find_unusable(rows, data_type), 37)
        self.assertIsNone(values.find_unusable(np.full((1, 8), 1e12, np.float32), "f32"))
        for value in (1e12, -1e12, 0.999e12):
            rounded = values.convert(np.full((1, 8), value, np.float32), "f32", "bf16", Workers(1))
            self.assertIsNone(values.find_unusable(rounded, "bf16"))


class WorkersTest(unittest.TestCase):
    def test_all_calls_are_made_and_an_error_is_raised(self):
        for num_threads in (1, 3):
            workers, made = Workers(num_threads), []
            workers.run([lambda index=index: made.append(index) for index in range(10)])
            self.assertEqual(sorted(made), list(range(10)))
            for wrong in (0, 2):
                calls = [lambda: None, lambda: None, lambda: None]
                calls[wrong] = lambda: 1 // 0
                self.assertRaises(ZeroDivisionError, workers.run, calls)
            workers.close()


class SeenIdsTest(unittest.TestCase):
    def test_a_duplicate_is_found_among_any_others(self):
        for kind in ("string", "int64"):
            rng = np.random.default_rng(2)
            seen, ordinal = ids.SeenIds(), 0
            for _ in range(200):
                numbers = np.arange(ordinal, ordinal + int(rng.integers(1, 60)), dtype=np.int64) * 3 - 100
                seen.add(self.make(kind, numbers), ordinal)
                ordinal += len(numbers)
            self.assertLess(len(seen._runs), 16)
            for earlier in rng.integers(0, ordinal, 50):
                batch = np.array([-(10**15), int(earlier) * 3 - 100, 10**15], np.int64)
                with self.assertRaises(ids.Duplicate) as raised:
                    seen.add(self.make(kind, batch), ordinal)
                self.assertEqual((raised.exception.index, raised.exception.earlier), (1, earlier))

    def test_a_duplicate_is_found_in_one_batch(self):
        for kind in ("string", "int64"):
            with self.assertRaises(ids.Duplicate) as raised:
                ids.SeenIds().add(self.make(kind, np.array([4, -1, 7, 9, 7, -1], np.int64)), 100)
            self.assertEqual((raised.exception.index, raised.exception.earlier), (4, 102))

    def test_ids_with_half_a_hash_in_common_differ(self):
        # Replaces the hash so that the first half of all hashes is the same number.
        with mock.patch.object(ids, "xxh3_128_digest", lambda id: bytes(8) + id[:8].rjust(8, b"\0")):
            seen = ids.SeenIds()
            seen.add([b"a", b"b", b"c"], 0)
            seen.add([b"d", b"e"], 3)
            for batch, index, earlier in (([b"f", b"b"], 1, 1), ([b"f", b"g", b"f"], 2, 5), ([b"e"], 0, 4)):
                with self.assertRaises(ids.Duplicate) as raised:
                    seen.add(batch, 5)
                self.assertEqual((raised.exception.index, raised.exception.earlier), (index, earlier))

    def test_ids_are_strings_or_64_bit_integers(self):
        self.assertEqual(ids.encode_id("é"), "é".encode())
        self.assertEqual(ids.encode_id(np.int32(-7)), -7)
        self.assertEqual(ids.encode_id(np.str_("x")), b"x")
        for wrong in ("", "é" * 257, "\ud800", True, None, 1.0, b"x", 1 << 63, -(1 << 63) - 1, ("x",)):
            with self.assertRaises(CollectionError, msg=repr(wrong)):
                ids.encode_id(wrong)

    @staticmethod
    def make(kind, numbers):
        return [str(number).encode() for number in numbers] if kind == "string" else numbers


if __name__ == "__main__":
    main()
