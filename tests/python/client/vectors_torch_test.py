"""Tests maxsim.vectors with torch's tensors, whose bits must not change.

python vectors_torch_test.py
"""

import pathlib
import sys
import unittest

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from python_package import use_package  # noqa: E402

use_package()
from maxsim.vectors import token_vectors  # noqa: E402

VALUES = [[1.5, -2.0, 0.25], [3.0, 0.0, -0.5]]


class TorchTest(unittest.TestCase):
    def test_each_type_stays_or_becomes_float32(self):
        for dtype, name in (
            (torch.float32, "f32"),
            (torch.float16, "f16"),
            (torch.bfloat16, "bf16"),
            (torch.float64, "f32"),
        ):
            vectors = token_vectors(torch.tensor(VALUES, dtype=dtype))
            self.assertEqual(vectors.data_type, name)
            np.testing.assert_array_equal(vectors.to_float32(), np.array(VALUES, np.float32))

    def test_bfloat16_has_the_bits_of_torch(self):
        tensor = torch.randn(17, 33, generator=torch.Generator().manual_seed(1)).to(torch.bfloat16)
        vectors = token_vectors(tensor)
        np.testing.assert_array_equal(vectors.to_float32(), tensor.float().numpy())

    def test_a_gradient_is_no_obstacle(self):
        for dtype in (torch.float32, torch.bfloat16):
            tensor = torch.tensor(VALUES, dtype=dtype, requires_grad=True)
            for one in (tensor, tensor * 1, torch.nn.Parameter(tensor.detach())):
                np.testing.assert_array_equal(token_vectors(one).to_float32(), np.array(VALUES, np.float32))
        with torch.inference_mode():
            np.testing.assert_array_equal(token_vectors(torch.tensor(VALUES) * 1).data, np.array(VALUES, np.float32))

    def test_views_and_slices(self):
        tensor = torch.arange(60, dtype=torch.float32).reshape(6, 10)
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            whole = tensor.to(dtype)
            for view in (whole.T, whole[::2, 3:8], whole[2:3].expand(4, 10), whole[:0], torch._neg_view(whole)):
                vectors = token_vectors(view)
                self.assertEqual(vectors.data.shape, tuple(view.shape))
                np.testing.assert_array_equal(vectors.to_float32(), view.float().numpy(force=True))

    def test_rows_in_a_list(self):
        for dtype, name in ((torch.float16, "f16"), (torch.bfloat16, "bf16")):
            vectors = token_vectors([row for row in torch.tensor(VALUES, dtype=dtype, requires_grad=True)])
            self.assertEqual(vectors.data_type, name)
            np.testing.assert_array_equal(vectors.to_float32(), np.array(VALUES, np.float32))

    def test_what_cannot_be_is_named(self):
        for tensor, message in (
            (torch.ones(3), r"^query has shape \[3\]"),
            (torch.ones(2, 2, dtype=torch.int32), "^query has elements of int32"),
            (torch.ones(2, 2, dtype=torch.complex64), "^query has elements of complex64"),
            (torch.ones(2, 2).to(torch.float8_e4m3fn), "^query has elements of torch.float8_e4m3fn"),
            (torch.ones(2, 2).to_sparse(), "^query is a tensor of the layout torch.sparse_coo"),
        ):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                token_vectors(tensor, name="query")

    @unittest.skipUnless(torch.cuda.is_available(), "needs a GPU")
    def test_tensors_of_a_gpu(self):
        for dtype in (torch.float32, torch.bfloat16):
            tensor = torch.tensor(VALUES, dtype=dtype, device="cuda", requires_grad=True)
            np.testing.assert_array_equal(token_vectors(tensor).to_float32(), np.array(VALUES, np.float32))

    def test_the_dlpack_of_torch_is_read_as_other_libraries_are(self):
        class Exported:
            def __init__(self, tensor):
                self.__dlpack__, self.__dlpack_device__ = tensor.__dlpack__, tensor.__dlpack_device__

        for dtype, name in ((torch.float32, "f32"), (torch.float16, "f16"), (torch.bfloat16, "bf16")):
            for tensor in (torch.tensor(VALUES, dtype=dtype), torch.tensor(VALUES, dtype=dtype).T):
                vectors = token_vectors(Exported(tensor))
                self.assertEqual(vectors.data_type, name)
                np.testing.assert_array_equal(vectors.to_float32(), tensor.float().numpy())


if __name__ == "__main__":
    unittest.main(verbosity=2)
