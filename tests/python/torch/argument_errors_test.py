"""Tests that the errors of maxsim_scores and maxsim_scores_packed name the argument and its limit.

python argument_errors_test.py LIBMAXSIM.so        with torch installed
"""

from unittest import mock

from scores_case import SeededTest
from torch_fixture import run_tests

import numpy as np
import torch

from maxsim_torch import call_memory, library, maxsim_scores, maxsim_scores_packed


class ErrorsTest(SeededTest):
    def refuse(self, error, pattern, *arguments, function=maxsim_scores, **more):
        with self.assertRaisesRegex(error, pattern):
            function(*arguments, **more)

    def test_an_error_names_the_argument(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        self.refuse(TypeError, "queries have type torch.float64", queries.double(), documents)
        self.refuse(ValueError, "float16 with 8 columns", queries.half(), documents)
        self.refuse(ValueError, "documents torch.float32 with 7", queries, documents[..., :7])
        self.refuse(ValueError, r"queries have shape \(8,\)", queries[0, 0], documents)
        self.refuse(ValueError, r"documents have shape \(5, 8\)", queries, documents[0])
        self.refuse(ValueError, r"query_mask has shape \(3,\)", queries, documents, query_mask=torch.ones(3))
        self.refuse(TypeError, "document_lengths have type", queries, documents, document_lengths=torch.ones(4))
        self.refuse(ValueError, "2 queries are paired with 4", queries, documents, paired=True)
        self.refuse(ValueError, r"weights have shape \(3,\)", queries, documents, weights=torch.ones(3))
        self.refuse(ValueError, "int8 needs scales", queries, documents, document_scales=torch.ones(4))
        self.refuse(ValueError, "documents of 4 queries", queries, documents[:, None])
        self.refuse(TypeError, "queries is of type list; must be a torch.Tensor", [[1.0]], documents)
        self.refuse(TypeError, "document_lengths is of type list", queries, documents, document_lengths=[5] * 4)
        self.refuse(TypeError, "candidates is of type int", queries, documents, candidates=3)

    def test_a_mask_of_numbers_holds_zeros_and_ones(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        mask = torch.tensor([[True] * 3 + [False] * 2] * 4)
        wanted = maxsim_scores(queries, documents, document_mask=mask)
        for dtype in (torch.uint8, torch.int64, torch.float16, torch.float32):
            found = maxsim_scores(queries, documents, document_mask=mask.to(dtype))
            self.assertTrue(torch.equal(found, wanted), dtype)
        for hidden in (-1e4, float("-inf"), float("nan"), 0.5):
            additive = torch.where(mask, 0.0, hidden)
            message = r"document_mask has the value (-10000.0|-inf|nan|0.5) at 3 of its 20; must be booleans, or 0"
            self.refuse(ValueError, message, queries, documents, document_mask=additive)
        self.refuse(ValueError, "query_mask has the value 2 at 0", queries, documents, query_mask=torch.full((2, 3), 2))

    def test_an_error_names_the_limit(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        wide, thin = torch.randn(1, 1, 4097), torch.randn(1, 1, 0)
        self.refuse(ValueError, "queries have 4097 columns; must have 1 to 4096", wide, wide)
        self.refuse(ValueError, "queries have 0 columns", thin, thin)
        long_query, long_document = torch.randn(1, 4097, 8), torch.zeros(1, 65_537, 8)
        self.refuse(ValueError, "a query has up to 4097 tokens; at most 4096", long_query, documents)
        self.refuse(ValueError, "a document has up to 65537 tokens; at most 65536", queries, long_document)
        rows, offsets = torch.randn(9, 8), torch.tensor([0, 4, 9])
        more = {"function": maxsim_scores_packed, "query_offsets": offsets, "max_query_tokens": 4097}
        self.refuse(ValueError, "max_query_tokens is 4097; must be 0 to 4096", rows, rows, offsets, **more)
        more["max_query_tokens"] = 5.0
        self.refuse(TypeError, "max_query_tokens is of type float; must be an integer", rows, rows, offsets, **more)

    def test_a_wrong_value_is_named_on_the_cpu(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        wrong = {"candidates": torch.tensor([[0, 4], [1, 1]])}
        self.refuse(ValueError, r"candidates\[0, 1\] is 4; must be 0 to 3", queries, documents, **wrong)
        wrong = {"document_lengths": torch.tensor([5, 6, 1, 1])}
        self.refuse(ValueError, r"document_lengths\[1\] is 6; must be 0 to 5", queries, documents, **wrong)
        wrong = {"query_lengths": torch.tensor(-1)}
        self.refuse(ValueError, "query_lengths is -1; must be 0 to 3", queries[0], documents, **wrong)
        none = {"candidates": torch.tensor([[0], [0]])}
        self.refuse(ValueError, r"candidates\[0, 0\] is 0; there are none", queries, documents[:0], **none)
        wrong = {"candidates": torch.tensor([[0, 1]])}
        self.refuse(ValueError, r"candidates .* \(1, 2\); must be \[K\] for one query", queries[0], documents, **wrong)

    def test_numbers_are_numbers(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        self.refuse(TypeError, "empty_score is of type NoneType", queries, documents, empty_score=None)
        self.refuse(TypeError, "queries is of type NoneType; must be a torch.Tensor", None, documents)
        of_numpy = maxsim_scores(queries, documents[:, :0], empty_score=np.float32(-2))
        self.assertEqual(of_numpy.unique().tolist(), [-2])
        wrong = {"document_lengths": torch.ones(4, dtype=torch.complex64)}
        self.refuse(TypeError, "document_lengths have type torch.complex64", queries, documents, **wrong)

    def test_packed_arguments_that_do_not_fit(self):
        rows, offsets = torch.randn(9, 8), torch.tensor([0, 4, 9])
        packed = {"function": maxsim_scores_packed}
        self.refuse(ValueError, "need max_query_tokens", rows, rows, offsets, query_offsets=offsets, **packed)
        self.refuse(ValueError, "is for packed queries", rows, rows, offsets, max_query_tokens=5, **packed)
        self.refuse(ValueError, r"documents .*; packed ones must be \[tokens, d\]", rows, rows[None], offsets, **packed)
        self.refuse(ValueError, r"offsets\[1\] is 14; must be 0 to 9", rows, rows, offsets[[0, 2]] + 5, **packed)
        self.refuse(ValueError, r"offsets\[1\] is 2, but the one before is 4", rows, rows, torch.tensor([4, 2]), **packed)
        self.refuse(ValueError, "document_offsets are empty", rows, rows, offsets[:0], **packed)
        packed["document_lengths"] = torch.tensor([4, 5])
        self.refuse(ValueError, "document 1 has 5 tokens from row 5 on", rows, rows, torch.tensor([0, 5]), **packed)
        del packed["document_lengths"]
        more = {"query_offsets": offsets, "max_query_tokens": 4}
        self.refuse(ValueError, "query 1 has 5 tokens; must have at most 4", rows, rows, offsets, **more, **packed)

    def test_int8_has_no_gradient(self):
        weights = torch.ones(1, 2, requires_grad=True)
        rows, scales = torch.ones(1, 2, 8, dtype=torch.int8), torch.ones(1)
        more = {"query_scales": scales, "document_scales": scales, "weights": weights}
        self.refuse(NotImplementedError, "int8 queries and documents have no gradients", rows, rows, **more)
        with torch.no_grad():
            self.assertEqual(maxsim_scores(rows, rows, **more).item(), 16)


    def test_scales_have_no_gradient(self):
        rows, scales = torch.ones(1, 2, 8, dtype=torch.int8), torch.ones(1, requires_grad=True)
        more = {"query_scales": torch.ones(1), "document_scales": scales}
        self.refuse(NotImplementedError, "document_scales require a gradient", rows, rows, **more)
        with torch.no_grad():
            self.assertEqual(maxsim_scores(rows, rows, **more).item(), 16)

    def test_scales_that_do_not_fit(self):
        rows, scales = torch.ones(2, 3, 8, dtype=torch.int8), torch.ones(2)
        more = {"query_scales": scales, "document_scales": torch.ones(6)}
        self.refuse(ValueError, r"document_scales have shape \(6,\); must be \(2,\) or", rows, rows, **more)
        offsets = torch.tensor([0, 1, 3])
        more = {"query_scales": scales, "document_scales": torch.ones(4), "function": maxsim_scores_packed}
        pattern = r"shape \(4,\); must be \(2,\), \(3,\) or \(3, 1\)"
        self.refuse(ValueError, pattern, rows, rows[0], offsets, **more)

    def test_other_devices_are_refused_by_name(self):
        for device, pattern in (("xpu:0", "on xpu:0; maxsim_torch computes on cpu and cuda"), ("mps", "on mps")):
            with self.assertRaisesRegex(NotImplementedError, pattern):
                call_memory.CallMemory(library.Call, torch.device(device))
        with mock.patch("torch.version.hip", "6.2"), self.assertRaisesRegex(NotImplementedError, "of ROCm 6.2"):
            call_memory.CallMemory(library.Call, torch.device("cuda:0"))


if __name__ == "__main__":
    run_tests()
