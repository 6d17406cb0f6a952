"""Tests maxsim.vectors with token vectors from NumPy, lists, and any library with DLPack. vectors_torch_test.py tests
torch.

python vectors_test.py
"""

import ctypes
import subprocess
import sys
import unittest

import numpy as np

from client_fixture import use_package

use_package()
from maxsim.vectors import TokenVectors, token_vectors  # noqa: E402

HALVES = np.array([[1.5, -2.0], [0.25, 3.0], [0.0, -0.5]], np.float16)


class Exported:
    """An array that has only DLPack's methods."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.device


class Bfloat16(Exported):
    """An array of bfloat16. NumPy exports its bits as uint16, then this class changes the type code in the DLPack
    capsule."""

    def __dlpack__(self, *, stream=None):
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        # DLTensor: data, device (two int32), ndim (int32), then the type code.
        code = ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + 8 + 8 + 4)
        assert code.value == 1, "an unsigned integer"
        code.value = 4
        return capsule


class OnDevice(Exported):
    """An array in GPU memory, like CuPy's: get() copies it to host memory."""

    def __init__(self, array):
        super().__init__(array, device=(2, 0))

    def get(self):
        return self.array


class NumpyTest(unittest.TestCase):
    def test_float16_and_float32_stay_and_float64_becomes_float32(self):
        for dtype, name in (
            ("f2", "f16"),
            ("f4", "f32"),
            ("f8", "f32"),
            (">f2", "f16"),
            (">f4", "f32"),
            (">f8", "f32"),
        ):
            with self.subTest(dtype):
                vectors = token_vectors(HALVES.astype(dtype))
                self.assertEqual(vectors.data_type, name)
                self.assertEqual(vectors.data.dtype, np.dtype("<f2" if name == "f16" else "<f4"))
                np.testing.assert_array_equal(vectors.to_float32(), HALVES.astype(np.float32))

    def test_strides_are_resolved(self):
        square = np.arange(36, dtype=np.float32).reshape(6, 6)
        for view in (square.T, square[::-2, 1::2], np.asfortranarray(square)):
            vectors = token_vectors(view)
            self.assertTrue(vectors.data.flags.c_contiguous)
            np.testing.assert_array_equal(vectors.data, view)

    def test_no_copy_is_made_of_what_fits(self):
        array = np.ones((2, 3), np.float32)
        self.assertTrue(np.shares_memory(token_vectors(array).data, array))

    def test_token_vectors_are_taken_as_they_are(self):
        vectors = token_vectors(HALVES)
        self.assertIs(token_vectors(vectors), vectors)

    def test_bfloat16_widens_to_the_same_numbers(self):
        bits = np.array([[0x3F80, 0xC000], [0x0000, 0x7F80]], "<u2")
        np.testing.assert_array_equal(TokenVectors("bf16", bits).to_float32(), [[1, -2], [0, np.inf]])

    def test_wrong_shapes_and_types_are_named(self):
        for array, message in (
            (np.ones(4, np.float32), r"^query has shape \[4\]"),
            (np.ones((1, 2, 3), np.float32), r"^query has shape \[1, 2, 3\]"),
            (np.ones((2, 2), np.int32), "^query has elements of int32"),
            (np.ones((2, 2), bool), "^query has elements of bool"),
            (np.ones((2, 2), np.complex64), "^query has elements of complex64"),
            (np.float32(1), r"^query has shape \[\]"),
            ("text", "^query is a str"),
            (7, "^query is a int"),
            (None, "^query is a NoneType"),
        ):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                token_vectors(array, name="query")
        with self.assertRaisesRegex(ValueError, "data_type is 'f64'"):
            TokenVectors("f64", np.ones((1, 1)))
        with self.assertRaisesRegex(ValueError, "data of f16 is a row-major"):
            TokenVectors("f16", np.ones((1, 1), np.float32))


class ListTest(unittest.TestCase):
    def test_lists_of_numbers_are_float32(self):
        for rows in ([[1.5, 2.0], [3.0, 4.0]], ((1.5, 2), (3, 4))):
            vectors = token_vectors(rows)
            self.assertEqual(vectors.data_type, "f32")
            np.testing.assert_array_equal(vectors.data, rows)
        np.testing.assert_array_equal(token_vectors([[1, 2], [3, 4]]).data, np.array([[1, 2], [3, 4]], np.float32))

    def test_rows_of_arrays_keep_their_type(self):
        for rows in (list(HALVES), [Exported(row) for row in HALVES]):
            vectors = token_vectors(rows)
            self.assertEqual(vectors.data_type, "f16")
            np.testing.assert_array_equal(vectors.data, HALVES)

    def test_ragged_and_wrong_lists_are_refused(self):
        for rows in ([[1.0, 2.0], [3.0]], [np.ones(2), np.ones(3)], [["a", "b"]], [[None]], [], [[1j]]):
            with self.subTest(rows), self.assertRaisesRegex(ValueError, "^vectors"):
                token_vectors(rows)


class DlpackTest(unittest.TestCase):
    def test_each_type_and_layout_is_read(self):
        square = np.arange(36, dtype=np.float64).reshape(6, 6)
        for dtype, name in (("f2", "f16"), ("f4", "f32"), ("f8", "f32")):
            whole = square.astype(dtype)
            for view in (whole, whole.T, whole[::2, 3:], whole[4:], np.asfortranarray(whole), whole[:0]):
                vectors = token_vectors(Exported(view))
                self.assertEqual(vectors.data_type, name)
                np.testing.assert_array_equal(vectors.data, view)

    def test_the_copy_outlives_its_array(self):
        array = np.full((50, 50), 7.0, np.float32)
        vectors = token_vectors(Exported(array))
        array[:] = 0
        del array
        self.assertTrue((vectors.data == 7).all())

    def test_bfloat16_is_read(self):
        bits = np.array([[0x3F80, 0xC000, 0x3FC0]], np.uint16)
        vectors = token_vectors(Bfloat16(bits))
        self.assertEqual(vectors.data_type, "bf16")
        np.testing.assert_array_equal(vectors.data, bits)
        np.testing.assert_array_equal(vectors.to_float32(), [[1, -2, 1.5]])

    def test_an_array_of_a_gpu_is_fetched_where_it_can_be(self):
        np.testing.assert_array_equal(token_vectors(OnDevice(HALVES)).data, HALVES)
        with self.assertRaisesRegex(ValueError, "^query is not in the CPU's memory"):
            token_vectors(Exported(HALVES, device=(2, 0)), name="query")

    def test_integers_are_refused(self):
        with self.assertRaisesRegex(ValueError, "^vectors has elements of uint16"):
            token_vectors(Exported(np.ones((2, 2), np.uint16)))


class ImportTest(unittest.TestCase):
    def test_vectors_import_neither_grpc_nor_torch(self):
        code = "import sys, maxsim.vectors; sys.exit(bool({'grpc', 'torch', 'google.protobuf'} & {*sys.modules}))"
        subprocess.run([sys.executable, "-B", "-c", code], env={"PYTHONPATH": sys.path[0]}, check=True)

    def test_the_old_name_gives_the_same_and_warns(self):
        code = (
            "import warnings\n"
            "with warnings.catch_warnings(record=True) as found:\n"
            "    warnings.simplefilter('always')\n"
            "    from maxsim_client import Client, Document, Ranking, token_matrix\n"
            "    from maxsim_client.client import Client as again\n"
            "assert [w.category for w in found] == [DeprecationWarning], found\n"
            "assert found[0].filename == '<string>', found[0].filename\n"
            "import maxsim\n"
            "assert Client is again is maxsim.Client and token_matrix is maxsim.token_matrix\n"
        )
        subprocess.run([sys.executable, "-B", "-c", code], env={"PYTHONPATH": sys.path[0]}, check=True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
