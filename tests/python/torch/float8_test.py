"""Compares maxsim_scores of float8 values, with every kind of scales, with float64.

python float8_test.py LIBMAXSIM.so        with torch installed
"""

import itertools

from torch_fixture import DEVICES, TorchTest, on, run_tests

import torch

from maxsim_torch import float8, maxsim_scores, maxsim_scores_packed, maxsim_top_k, reference

TYPES = (torch.float8_e4m3fn, torch.float8_e5m2)
WIDE = (torch.float16, torch.bfloat16, torch.float32)


def scaled(rows, scales):
    """Returns the scaled values in float64. `scales` has one scale for all values, one per sequence, or one per
    token."""
    rows = rows.double()
    return (
        rows if scales is None else rows * scales.double().reshape(*scales.shape, *(1,) * (rows.dim() - scales.dim()))
    )


class Float8Test(TorchTest):
    def setUp(self):
        super().setUp()
        self.queries, self.documents = self.values(4, 9, 32), self.values(6, 20, 32)
        self.lengths = torch.tensor([20, 3, 0, 7, 20, 1])

    def scales(self, shape):
        return None if shape is None else torch.rand(shape, generator=self.random) + 0.1

    def check(self, result, expected):
        torch.testing.assert_close(result[0].cpu().double(), expected[0], rtol=1e-5, atol=1e-4)
        self.assertTrue(torch.equal(result[1].cpu(), expected[1]))

    def test_every_value_is_one_of_the_types_that_it_is_converted_to(self):
        bits = torch.arange(256, dtype=torch.int16).to(torch.uint8)
        for dtype, wide, device in itertools.product(TYPES, WIDE, DEVICES):
            values = bits.view(dtype).to(device)
            finite = values.float().isfinite()
            self.assertGreater(finite.sum().item(), 240)
            self.check_same_bits([values.to(wide)[finite].double()], [values.double()[finite]])

    def test_scores_and_matches_are_those_of_the_scaled_values(self):
        query_shapes, document_shapes = (None, (), (4,), (4, 9)), (None, (), (6,), (6, 20))
        for dtype, query_shape, document_shape in itertools.product(TYPES, query_shapes, document_shapes):
            queries, documents = self.queries.to(dtype), self.documents.to(dtype)
            scales = {"query_scales": self.scales(query_shape), "document_scales": self.scales(document_shape)}
            more = {"document_lengths": self.lengths, "empty_score": -2.0, "return_argmax": True}
            more["weights"] = torch.randint(1, 5, (4, 9), generator=self.random) / 4.0
            plain = scaled(queries, scales["query_scales"]), scaled(documents, scales["document_scales"])
            expected = reference.maxsim_scores(*plain, **more)
            for device in DEVICES:
                with self.subTest(dtype=dtype, queries=query_shape, documents=document_shape, device=device):
                    given = on(device, {"queries": queries, "documents": documents, **more, **scales})
                    self.check(maxsim_scores(**given), expected)

    def test_every_pairing_has_the_scale_of_its_document(self):
        for name, device, shape_of in itertools.product(("paired", "lists", "candidates"), DEVICES, (0, 1)):
            more = {"return_argmax": True}
            documents = self.documents
            if name == "paired":
                documents, more["paired"] = documents[:4], True
            elif name == "lists":
                documents = self.values(4, 3, 20, 32)
            else:
                more["candidates"] = torch.randint(0, 6, (4, 5), generator=self.random)
            documents = documents.to(TYPES[0])
            scales = self.scales(documents.shape[: -2 + shape_of])
            expected = reference.maxsim_scores(self.queries.half().double(), scaled(documents, scales), **more)
            given = {"queries": self.queries.half(), "documents": documents, "document_scales": scales, **more}
            self.check(maxsim_scores(**on(device, given)), expected)

    def test_blocks_of_any_size_give_the_same_bits(self):
        queries, documents = self.queries.half(), self.documents.to(TYPES[0])
        candidates = torch.randint(0, 6, (4, 5), generator=self.random)
        for named, pairing, length in ((None, 0, 6), (candidates, 2, 5)):
            given = queries, documents, *(None,) * 4, self.lengths, None, named, pairing, length, -2.0
            results = [float8.float8_scores(*given, block, True) for block in (0, 1, 2, 5, 6)]
            whole = maxsim_scores(
                queries,
                documents.half(),
                document_lengths=self.lengths,
                candidates=named,
                empty_score=-2.0,
                return_argmax=True,
            )
            for result in results:
                self.check_same_bits(result, list(whole))

    def test_packed_rows_have_scales_too(self):
        rows, offsets = self.documents.reshape(-1, 32).to(TYPES[1]), torch.tensor([0, 20, 20, 57, 120])
        query_rows, query_offsets = self.queries.reshape(-1, 32).to(TYPES[1]), torch.tensor([0, 9, 9, 30, 36])
        query_scales = self.scales((4,))
        for shape in ((4,), (120,), (120, 1), ()):
            scales = self.scales(shape)
            of_tokens = scales.expand(120) if shape == () else scales.reshape(-1)
            if shape == (4,):
                of_tokens = scales.repeat_interleave(offsets.diff())
            scores = maxsim_scores_packed(
                query_rows,
                rows,
                offsets,
                query_offsets=query_offsets,
                max_query_tokens=21,
                query_scales=query_scales,
                document_scales=scales,
            )
            plain = query_rows.float() * query_scales.repeat_interleave(query_offsets.diff()).unsqueeze(1)
            expected = maxsim_scores_packed(
                plain, rows.float() * of_tokens.unsqueeze(1), offsets, query_offsets=query_offsets, max_query_tokens=21
            )
            torch.testing.assert_close(scores, expected)

    def test_the_best_of_float8_documents(self):
        queries, documents = self.queries.half(), self.documents.to(TYPES[0])
        scales = self.scales((6, 20))
        expected = reference.maxsim_top_k(queries.double(), scaled(documents, scales), 4)
        for device in DEVICES:
            result = maxsim_top_k(queries.to(device), documents, 4, document_scales=scales, block_documents=2)
            torch.testing.assert_close(result.scores.cpu().double(), expected[0], rtol=1e-5, atol=1e-4)
            self.check_same_bits([result.indices.cpu()], [expected[1]])

    def test_pytorch_finds_nothing_wrong_with_the_operator(self):
        # The schema check multiplies inputs, which PyTorch cannot do in float8. So it gets bfloat16 inputs.
        of_schema = "test_schema", "test_autograd_registration"
        of_shapes = "test_faketensor", "test_aot_dispatch_dynamic"
        for dtype, utilities in ((torch.bfloat16, of_schema), (TYPES[0], of_shapes)):
            given = self.queries.half(), self.documents.to(dtype), *(None,) * 4, self.lengths, self.scales((6, 20))
            arguments = (*given, None, 0, 6, -2.0, 4, True)
            torch.library.opcheck(torch.ops.maxsim_torch.float8_scores.default, arguments, test_utils=utilities)

    def test_compiles_into_one_graph(self):
        def function(queries, documents, scales):
            return maxsim_scores(queries, documents, document_scales=scales).softmax(1)

        given = self.queries.half(), self.documents.to(TYPES[0]), self.scales((6,))
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(*given), function(*given))

    def test_errors_name_what_does_not_fit(self):
        queries, documents = self.queries.to(TYPES[0]), self.documents.to(TYPES[0])
        wrong = {"document_scales": torch.ones(7)}
        pattern = r"document_scales have shape \(7,\); must be \(6,\) or \(6, 20\)"
        self.refuse(ValueError, pattern, maxsim_scores, queries, documents, **wrong)
        wrong = {"query_scales": torch.ones(4, 8)}
        self.refuse(ValueError, r"query_scales have shape \(4, 8\)", maxsim_scores, queries, documents, **wrong)
        rows = torch.ones(6, 20, 32, dtype=torch.int8)
        wrong = {"document_scales": torch.ones(6)}
        self.refuse(ValueError, "float8_e4m3fn with 32 columns", maxsim_scores, queries, rows, **wrong)
        self.refuse(ValueError, "with 31", maxsim_scores, queries, documents[..., :31].contiguous())
        weights = torch.ones(4, 9, requires_grad=True)
        pattern = "float8 queries or documents have no gradients"
        self.refuse(NotImplementedError, pattern, maxsim_scores, queries, documents, weights=weights)
        self.refuse(NotImplementedError, pattern, maxsim_scores, self.queries.half().requires_grad_(), documents)
        wrong = {"document_scales": torch.ones(6, requires_grad=True)}
        self.refuse(NotImplementedError, "document_scales require", maxsim_scores, queries, documents, **wrong)
        wrong = {"candidates": torch.tensor([[0], [1], [-1], [2]])}
        self.refuse(ValueError, r"candidates\[2, 0\] is -1; must be 0 to 5", maxsim_scores, queries, documents, **wrong)


if __name__ == "__main__":
    run_tests()
