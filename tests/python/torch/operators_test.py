"""maxsim_torch on the CPU: scores, matches and gradients beside plain PyTorch in float64, and what PyTorch asks of
operators.

python operators_test.py LIBMAXSIM.so        with torch installed
"""

import contextlib
import importlib
import io
import itertools
import math
import os
import pathlib
import re
import sys
import unittest
from unittest import mock

os.environ["MAXSIM_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "torch"))

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch.autograd import forward_ad  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import maxsim_torch  # noqa: E402
from maxsim_torch import (  # noqa: E402
    call_memory,
    direct_calls,
    library,
    maxsim_scores,
    maxsim_scores_packed,
    operators,
    reference,
)

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
SEED = int(os.environ.get("MAXSIM_TEST_SEED", "20240611"))
# Half of the distance between neighbouring values, relative to them: what rounding a gradient to its type may add.
ROUNDING = {torch.float32: 0, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


class Case:
    """Random inputs; `ties` makes them small integers, of which many similarities are equal and all sums exact."""

    def __init__(self, dtype, pairing="all", ragged=False, masked=False, weighted=False, ties=False):
        random = torch.Generator().manual_seed(SEED)
        self.random = random

        def values(*shape):
            if ties:
                return torch.randint(-1, 2, shape, generator=random).to(dtype)
            return torch.randn(shape, generator=random).to(dtype)

        num_queries, num_documents, length = 5, 6, 4
        self.arguments = {}
        document_shape = (num_documents,)
        if pairing == "paired":
            document_shape = (num_queries,)
            self.arguments["paired"] = True
        elif pairing == "lists":
            document_shape = (num_queries, length)
        elif pairing == "candidates":
            self.arguments["candidates"] = torch.randint(0, num_documents, (num_queries, length), generator=random)
        self.queries = values(num_queries, 33, 40)
        self.documents = values(*document_shape, 50, 40)
        if ragged:
            lengths = torch.randint(1, 34, (num_queries,), generator=random)
            lengths[1] = 0
            self.arguments["query_lengths"] = lengths
            lengths = torch.randint(1, 51, document_shape, generator=random)
            lengths.view(-1)[2] = 0
            self.arguments["document_lengths"] = lengths.to(torch.int32)
        if masked:
            self.arguments["query_mask"] = torch.rand((num_queries, 33), generator=random) < 0.7
            mask = torch.rand((*document_shape, 50), generator=random) < 0.5
            mask.view(-1, 50)[3] = False
            self.arguments["document_mask"] = mask
        if weighted:
            self.arguments["weights"] = torch.randint(-4, 9, (num_queries, 33), generator=random) / 4.0
        # A finite score, so that differences can be taken.
        self.arguments["empty_score"] = -3.0

    def names(self):
        return ("queries", "documents", "weights") if "weights" in self.arguments else ("queries", "documents")

    def run(self, function, dtype=None, device="cpu", **more):
        """Returns the results and the gradients of a random mixture of the scores."""
        tensors = {"queries": self.queries.to(device), "documents": self.documents.to(device)}
        arguments = {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in self.arguments.items()
        }
        if "weights" in arguments:
            tensors["weights"] = arguments.pop("weights")
        tensors = {
            name: tensor.detach().to(dtype or tensor.dtype).requires_grad_() for name, tensor in tensors.items()
        }
        scores, argmax = function(**tensors, **arguments, return_argmax=True, **more)
        mixture = torch.randint(-8, 9, scores.shape, generator=torch.Generator().manual_seed(SEED)) / 8.0
        (scores * mixture.to(scores)).sum().backward()
        return scores.detach(), argmax, {name: tensors[name].grad for name in self.names()}


def cases():
    for dtype, pairing in itertools.product(FLOATS, ("all", "paired", "lists", "candidates")):
        for ragged, masked, weighted in ((False, False, False), (True, False, True), (True, True, True)):
            for ties in (False, True):
                name = f"{dtype} {pairing} ragged={ragged} masked={masked} weighted={weighted} ties={ties}"
                yield name, Case(dtype, pairing, ragged, masked, weighted, ties)


def expect_nothing_of_what_does_not_count(test, device):
    """Fails the test where a NaN of a token that does not count, or of its weight, reaches a result."""
    case = Case(torch.float16, ragged=True, masked=True, weighted=True)
    scores, argmax, gradients = case.run(maxsim_scores, device=device)
    for tensor, kind in ((case.queries, "query"), (case.documents, "document")):
        lengths, mask = case.arguments[f"{kind}_lengths"], case.arguments[f"{kind}_mask"]
        counts = reference.counting(tuple(tensor.shape[:-1]), lengths, mask, tensor.device)
        tensor[~counts] = math.nan
        if kind == "query":
            case.arguments["weights"][~counts] = math.nan
    again, argmax_again, gradients_again = case.run(maxsim_scores, device=device)
    test.assertTrue(torch.equal(scores, again))
    test.assertTrue(torch.equal(argmax, argmax_again))
    for name, gradient in gradients.items():
        test.assertTrue(torch.equal(gradient, gradients_again[name]), name)


class SeededTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(SEED)


class ScoresTest(SeededTest):
    def test_scores_matches_and_gradients_are_those_of_float64(self):
        for name, case in cases():
            with self.subTest(name):
                scores, argmax, gradients = case.run(maxsim_scores)
                expected, expected_argmax, expected_gradients = case.run(reference.maxsim_scores, torch.float64)
                self.assertEqual(scores.dtype, torch.float32)
                self.assertEqual(argmax.dtype, torch.int32)
                torch.testing.assert_close(scores.double(), expected, rtol=1e-5, atol=1e-3)
                self.assertTrue(torch.equal(argmax, expected_argmax))
                for of, gradient in gradients.items():
                    wanted = expected_gradients[of]
                    self.assertEqual(gradient.dtype, torch.float32 if of == "weights" else case.queries.dtype)
                    allowed = 1e-5 if of != "weights" else 1e-4
                    rounding = 0 if of == "weights" else ROUNDING[gradient.dtype]
                    self.assertLessEqual(
                        ((gradient.double() - wanted).abs() - rounding * wanted.abs()).max().item(), allowed, of
                    )

    def test_one_query_is_a_batch_of_one_without_its_dimension(self):
        case = Case(torch.float32)
        query, documents = case.queries[0], case.documents
        self.assertTrue(torch.equal(maxsim_scores(query, documents), maxsim_scores(query[None], documents)[0]))
        named = torch.tensor([2, 0])
        self.assertTrue(
            torch.equal(maxsim_scores(query, documents, candidates=named), maxsim_scores(query, documents)[named])
        )
        lists = maxsim_scores(query, documents[None], query_lengths=torch.tensor(7))
        self.assertTrue(torch.equal(lists, maxsim_scores(query[:7], documents)))
        self.assertEqual(maxsim_scores(query, documents[:1], paired=True).shape, ())

    def test_what_does_not_count_does_not_matter(self):
        expect_nothing_of_what_does_not_count(self, "cpu")

    def test_twenty_runs_have_the_same_bits(self):
        case = Case(torch.bfloat16, "candidates", ragged=True, masked=True, weighted=True)
        scores, argmax, gradients = case.run(maxsim_scores)
        for _ in range(20):
            again, argmax_again, gradients_again = case.run(maxsim_scores)
            self.assertTrue(torch.equal(scores, again) and torch.equal(argmax, argmax_again))
            for name, gradient in gradients.items():
                self.assertTrue(torch.equal(gradient, gradients_again[name]))

    def test_strided_and_expanded_tensors_are_taken(self):
        case = Case(torch.float32)
        wanted = maxsim_scores(case.queries, case.documents)
        strided = case.queries.transpose(0, 1).contiguous().transpose(0, 1)
        self.assertTrue(torch.equal(maxsim_scores(strided, case.documents), wanted))
        strided.requires_grad_()
        maxsim_scores(strided, case.documents).sum().backward()  # its gradient is an expanded tensor
        self.assertEqual(strided.grad.shape, case.queries.shape)

    def test_an_empty_document_has_its_score_and_no_gradient(self):
        queries = torch.randn(2, 3, 8, requires_grad=True)
        documents = torch.randn(2, 4, 8, requires_grad=True)
        scores, argmax = maxsim_scores(queries, documents, document_lengths=torch.tensor([4, 0]), return_argmax=True)
        self.assertTrue(torch.isneginf(scores[:, 1]).all())
        self.assertTrue((argmax[:, 1] == -1).all())
        scores.softmax(1).square().sum().backward()
        self.assertTrue((documents.grad[1] == 0).all() and queries.grad.isfinite().all())

    def test_no_documents_and_no_queries_give_empty_scores(self):
        self.assertEqual(maxsim_scores(torch.randn(2, 3, 8), torch.randn(0, 4, 8)).shape, (2, 0))
        self.assertEqual(maxsim_scores(torch.randn(0, 3, 8), torch.randn(5, 4, 8)).shape, (0, 5))


class PackedTest(SeededTest):
    def setUp(self):
        super().setUp()
        random = torch.Generator().manual_seed(SEED)
        self.query_lengths = torch.tensor([3, 0, 33, 8])
        self.document_lengths = torch.tensor([1, 50, 0, 17, 9])
        self.queries = torch.randn(4, 33, 24, generator=random)
        self.documents = torch.randn(5, 50, 24, generator=random)
        self.weights = torch.rand(4, 33, generator=random)

    @staticmethod
    def pack(rows, lengths):
        offsets = torch.zeros(len(lengths) + 1, dtype=torch.int32)
        offsets[1:] = lengths.cumsum(0)
        return torch.cat([row[:length] for row, length in zip(rows, lengths)]), offsets

    def test_packed_is_padded_bit_for_bit(self):
        queries, query_offsets = self.pack(self.queries, self.query_lengths)
        documents, document_offsets = self.pack(self.documents, self.document_lengths)
        weights, _ = self.pack(self.weights, self.query_lengths)
        candidates = torch.tensor([[0, 0], [1, 2], [4, 3], [2, 1]])
        for more in ({}, {"candidates": candidates}):
            results = []
            for packed in (False, True):
                tensors = [self.queries, self.documents, self.weights] if not packed else [queries, documents, weights]
                tensors = [tensor.clone().requires_grad_() for tensor in tensors]
                if packed:
                    scores, argmax = maxsim_scores_packed(
                        *tensors[:2],
                        document_offsets,
                        query_offsets=query_offsets,
                        max_query_tokens=33,
                        weights=tensors[2],
                        return_argmax=True,
                        **more,
                    )
                else:
                    scores, argmax = maxsim_scores(
                        *tensors[:2],
                        query_lengths=self.query_lengths,
                        document_lengths=self.document_lengths,
                        weights=tensors[2],
                        return_argmax=True,
                        **more,
                    )
                torch.where(scores.isfinite(), scores, 0).sum().backward()
                gradients = [tensor.grad for tensor in tensors]
                if not packed:
                    pairs = zip(gradients, (self.query_lengths, self.document_lengths, self.query_lengths))
                    gradients = [self.pack(gradient, lengths)[0] for gradient, lengths in pairs]
                results.append((scores, argmax, *gradients))
            for padded, packed in zip(*results):
                self.assertTrue(torch.equal(padded, packed))

    def test_documents_may_lie_anywhere_and_overlap(self):
        rows = torch.randn(40, 24, requires_grad=True)
        offsets, lengths = torch.tensor([30, 5, 8, 39]), torch.tensor([10, 12, 3, 1])
        query = self.queries[2]
        scores = maxsim_scores_packed(query, rows, offsets, document_lengths=lengths)
        scores.sum().backward()
        plain = rows.detach().clone().requires_grad_()
        pieces = [plain[begin : begin + count] for begin, count in zip(offsets, lengths)]
        expected = torch.stack([(query @ piece.T).max(1).values.sum() for piece in pieces])
        expected.sum().backward()
        torch.testing.assert_close(scores, expected)
        torch.testing.assert_close(rows.grad, plain.grad)

    def test_padded_queries_meet_packed_documents(self):
        documents, offsets = self.pack(self.documents, self.document_lengths)
        wanted = maxsim_scores(self.queries, self.documents, document_lengths=self.document_lengths)
        self.assertTrue(torch.equal(maxsim_scores_packed(self.queries, documents, offsets), wanted))
        self.assertTrue(torch.equal(maxsim_scores_packed(self.queries[0], documents, offsets), wanted[0]))


class Int8Test(SeededTest):
    def test_scores_are_those_of_the_scaled_values(self):
        random = torch.Generator().manual_seed(SEED)
        queries = torch.randint(-127, 128, (3, 9, 32), generator=random, dtype=torch.int8)
        documents = torch.randint(-127, 128, (4, 20, 32), generator=random, dtype=torch.int8)
        for query_shape, document_shape in itertools.product(((3,), (3, 9)), ((4,), (4, 20))):
            query_scales = torch.rand(query_shape, generator=random) / 100
            document_scales = torch.rand(document_shape, generator=random) / 100
            scores, argmax = maxsim_scores(
                queries, documents, query_scales=query_scales, document_scales=document_scales, return_argmax=True
            )
            plain = [
                rows.double() * scales.double().reshape(*scales.shape, *(1,) * (3 - scales.dim()))
                for rows, scales in ((queries, query_scales), (documents, document_scales))
            ]
            expected, expected_argmax = reference.maxsim_scores(*plain, return_argmax=True)
            torch.testing.assert_close(scores.double(), expected, rtol=1e-5, atol=1e-5)
            self.assertTrue(torch.equal(argmax, expected_argmax))


    def test_packed_scales_are_of_documents_or_of_tokens(self):
        rows = torch.randint(-127, 128, (6, 16), dtype=torch.int8)
        query, query_scales = rows[:2], torch.tensor(0.5)
        scales = torch.rand(6)

        def scores(offsets, document_scales):
            return maxsim_scores_packed(
                query, rows, torch.tensor(offsets), query_scales=query_scales, document_scales=document_scales
            )

        def expected(offsets, token_scales):
            plain = rows.float() * token_scales.unsqueeze(1)
            return maxsim_scores_packed(query.float() * 0.5, plain, torch.tensor(offsets))

        torch.testing.assert_close(scores([0, 2, 6], scales), expected([0, 2, 6], scales))
        torch.testing.assert_close(scores([0, 2, 6], scales[:, None]), expected([0, 2, 6], scales))
        of_documents = torch.repeat_interleave(scales[:2], torch.tensor([2, 4]))
        torch.testing.assert_close(scores([0, 2, 6], scales[:2]), expected([0, 2, 6], of_documents))
        # As many documents as tokens: a vector may belong to either.
        offsets = [0, 2, 2, 3, 4, 5, 6]
        with self.assertRaisesRegex(ValueError, r"there are 6 sequences and 6 tokens; make them \[tokens, 1\]"):
            scores(offsets, scales)
        torch.testing.assert_close(scores(offsets, scales[:, None]), expected(offsets, scales))

    def test_scales_of_one_token_each_are_told_by_their_shape(self):
        rows = torch.randint(-127, 128, (3, 1, 16), dtype=torch.int8)
        scales = torch.rand(3)
        of_sequences, of_tokens = (
            maxsim_scores(rows, rows, query_scales=shaped, document_scales=shaped)
            for shaped in (scales, scales[:, None])
        )
        torch.testing.assert_close(of_sequences, of_tokens)


class OperatorTest(SeededTest):
    @staticmethod
    def inputs(case):
        """The arguments of the operators, as maxsim_scores passes them."""
        taken = []

        def take(*arguments):
            taken.append(arguments)
            return torch.ops.maxsim_torch.scores(*arguments)

        tensors = [case.queries.clone().requires_grad_(), case.documents.clone().requires_grad_()]
        arguments = dict(case.arguments)
        if "weights" in arguments:
            arguments["weights"] = arguments["weights"].clone().requires_grad_()
        with mock.patch("maxsim_torch.functions.scores", take):
            maxsim_scores(*tensors, **arguments)
        return taken[0]

    def test_pytorch_finds_nothing_wrong_with_the_operators(self):
        for case in (
            Case(torch.float32),
            Case(torch.float32, "lists", ragged=True, masked=True, weighted=True),
            Case(torch.float16, "candidates", weighted=True),
        ):
            arguments = self.inputs(case)
            torch.library.opcheck(torch.ops.maxsim_torch.scores.default, arguments)
            scores, argmax = torch.ops.maxsim_torch.scores(*arguments)
            tensors = [tensor.detach() if isinstance(tensor, torch.Tensor) else tensor for tensor in arguments]
            # The operator of gradients takes no scales, no empty score and no wish for an argmax.
            backward = [*tensors[:6], *tensors[7:10], *tensors[11:18]]
            for wanted in ((True, True, tensors[2] is not None), (True, False, False)):
                torch.library.opcheck(
                    torch.ops.maxsim_torch.scores_backward.default,
                    (torch.ones_like(scores), argmax, *backward, *wanted),
                )

    def test_plain_tensors_are_computed_without_the_dispatcher(self):
        self.assertIsNotNone(direct_calls._dispatch)
        case = Case(torch.float32)
        with (
            mock.patch.object(operators.scores, "_overload") as forward,
            mock.patch.object(operators.scores_backward, "_overload") as backward,
        ):
            case.run(maxsim_scores)
            maxsim_scores(case.queries, torch.nn.Parameter(case.documents))
            with torch.inference_mode():
                maxsim_scores(case.queries, torch.randn_like(case.documents))
            forward.assert_not_called()
            backward.assert_not_called()

    def test_profiles_name_the_operators(self):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            Case(torch.float32).run(maxsim_scores)
        names = {event.key for event in profile.key_averages()}
        self.assertLessEqual({"maxsim_torch::scores", "maxsim_torch::scores_backward"}, names)

    def test_views_of_what_is_negative_are_read_as_such(self):
        case = Case(torch.float32)
        expected = maxsim_scores(-case.queries, case.documents)
        torch.testing.assert_close(maxsim_scores(torch._neg_view(case.queries), case.documents), expected)

    def test_compiled_autograd_traces_the_backward_pass(self):
        case = Case(torch.float32)
        expected, traced = (case.queries.clone().requires_grad_() for _ in range(2))
        maxsim_scores(expected, case.documents).sum().backward()
        loss = maxsim_scores(traced, case.documents).sum()
        compiled_autograd = importlib.import_module("torch._dynamo.compiled_autograd")
        enable = getattr(compiled_autograd, "_enable", None) or compiled_autograd.enable  # its name until 2.6
        with enable(torch.compile(backend="aot_eager")):
            loss.backward()
        torch.testing.assert_close(traced.grad, expected.grad)

    def test_forward_mode_derivatives_are_refused(self):
        case = Case(torch.float32)
        with forward_ad.dual_level():
            queries = forward_ad.make_dual(case.queries, torch.ones_like(case.queries))
            with self.assertRaisesRegex(NotImplementedError, "scores has no forward-mode derivatives"):
                maxsim_scores(queries, case.documents)
            maxsim_scores(case.queries, case.documents)  # without a tangent

    def test_a_tensor_in_no_memory_is_refused(self):
        case = Case(torch.float32)
        with self.assertRaisesRegex(ValueError, "a tensor of the call is on meta, and others are on cpu"):
            maxsim_scores(case.queries, case.documents.to("meta"))

    def test_is_exported_for_any_number_of_tokens(self):
        class Model(torch.nn.Module):
            def forward(self, queries, documents, lengths):
                return maxsim_scores(queries, documents, document_lengths=lengths)

        tokens, documents = torch.export.Dim("tokens"), torch.export.Dim("documents")
        example = torch.randn(3, 4, 8), torch.randn(5, 6, 8), torch.tensor([1, 2, 3, 4, 5])
        shapes = ({1: tokens}, {0: documents}, {0: documents})
        for strict in (True, False):
            exported = torch.export.export(Model(), example, dynamic_shapes=shapes, strict=strict).module()
            given = torch.randn(3, 9, 8), torch.randn(7, 6, 8), torch.full((7,), 5)
            torch.testing.assert_close(exported(*given), Model()(*given), rtol=0, atol=0)

    def test_numbers_may_be_tensors_of_one_value(self):
        rows, offsets = torch.randn(9, 8), torch.tensor([0, 4, 9])
        longest = {"query_offsets": offsets, "max_query_tokens": offsets.diff().max()}
        scores = maxsim_scores_packed(rows, rows, offsets, **longest, empty_score=torch.tensor(0.0))
        longest["max_query_tokens"] = 5
        torch.testing.assert_close(scores, maxsim_scores_packed(rows, rows, offsets, **longest), rtol=0, atol=0)

    def test_candidates_of_a_number_that_data_say_are_compiled(self):
        def score(query, documents, chosen):
            return maxsim_scores(query, documents, candidates=chosen.nonzero().squeeze(-1))

        case, chosen = Case(torch.float32), torch.tensor([True, False, True, True])
        given = case.queries[0], case.documents[:4], chosen
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True):
            compiled = torch.compile(score, backend="aot_eager", fullgraph=True)(*given)
        torch.testing.assert_close(compiled, score(*given), rtol=0, atol=0)

    def test_gradients_of_a_batch_of_transforms_are_those_of_a_loop(self):
        case = Case(torch.float32)
        mapped, looped = (case.queries.clone().requires_grad_() for _ in range(2))
        scores = torch.func.vmap(lambda query: maxsim_scores(query, case.documents))(mapped)
        scores.sum().backward()
        maxsim_scores(looped, case.documents).sum().backward()
        torch.testing.assert_close(mapped.grad, looped.grad)

    def test_lists_may_be_without_a_candidate(self):
        case = Case(torch.float32)
        for count, length in ((len(case.queries), 0), (0, 4)):
            queries = case.queries[:count].clone().requires_grad_()
            scores = maxsim_scores(queries, case.documents, candidates=torch.zeros(count, length, dtype=torch.int64))
            self.assertEqual(scores.shape, (count, length))
            scores.sum().backward()
            self.assertEqual(queries.grad.abs().sum().item(), 0)

    def test_one_query_has_one_length(self):
        case = Case(torch.float32)
        with self.assertRaisesRegex(ValueError, r"query_lengths have the shape \(2,\); one query has one length"):
            maxsim_scores(case.queries[0], case.documents, query_lengths=torch.tensor([1, 2]))

    def test_modes_see_both_passes_and_no_gradients_of_matches(self):
        seen = []

        class Names(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), more=None):
                seen.append(str(function))
                return function(*arguments, **(more or {}))

        case = Case(torch.float32)
        queries, ones = case.queries.requires_grad_(), torch.ones(5, 6)
        with Names():
            torch.autograd.grad(maxsim_scores(queries, case.documents), queries, ones)
        passes = [name for name in seen if name.startswith("maxsim_torch")]
        self.assertEqual(passes, ["maxsim_torch.scores.default", "maxsim_torch.scores_backward.default"])
        self.assertFalse([name for name in seen if "zeros" in name], seen)

    def test_a_gradient_that_nothing_defines_is_zero(self):
        class WithoutGradient(torch.autograd.Function):
            @staticmethod
            def forward(ctx, scores):
                return 2 * scores

            @staticmethod
            def backward(ctx, gradients):
                return None

        case = Case(torch.float32)
        queries = case.queries.requires_grad_()
        scores = WithoutGradient.apply(maxsim_scores(queries, case.documents))
        (gradient,) = torch.autograd.grad(scores.sum(), queries)
        self.assertEqual(gradient.abs().sum().item(), 0)

    def test_second_derivatives_are_refused(self):
        case = Case(torch.float32)
        queries, documents = case.queries.requires_grad_(), case.documents.requires_grad_()
        (first,) = torch.autograd.grad(maxsim_scores(queries, documents).sum(), queries, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "backward through maxsim_torch.scores_backward.default"):
            first.sum().backward()

    def test_compiles_into_one_graph(self):
        def loss(queries, documents, lengths, weights):
            queries = torch.nn.functional.normalize(queries, dim=-1)
            scores = maxsim_scores(queries, documents, document_lengths=lengths, weights=weights)
            return torch.nn.functional.cross_entropy(scores, torch.arange(queries.shape[0]))

        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=dynamic)
            for size in (4, 6):
                results = []
                for function in (loss, compiled):
                    random = torch.Generator().manual_seed(size)
                    queries = torch.randn(size, 12, 16, generator=random, requires_grad=True)
                    documents = torch.randn(size + 3, 20, 16, generator=random, requires_grad=True)
                    weights = torch.rand(size, 12, generator=random, requires_grad=True)
                    lengths = torch.randint(1, 21, (size + 3,), generator=random)
                    value = function(queries, documents, lengths, weights)
                    value.backward()
                    results.append((value.detach(), queries.grad, documents.grad, weights.grad))
                for eager, traced in zip(*results):
                    torch.testing.assert_close(eager, traced)

    def test_without_a_gradient_no_match_is_kept(self):
        case = Case(torch.float32)
        with mock.patch("maxsim_torch.functions.scores", wraps=torch.ops.maxsim_torch.scores) as operator:
            maxsim_scores(case.queries, case.documents)
            self.assertIs(operator.call_args.args[-1], False)
            maxsim_scores(case.queries.requires_grad_(), case.documents)
            self.assertIs(operator.call_args.args[-1], True)
            with torch.no_grad():
                maxsim_scores(case.queries, case.documents)
            self.assertIs(operator.call_args.args[-1], False)

    def test_gradients_of_one_input_alone(self):
        case = Case(torch.float32, weighted=True)
        weights = case.arguments["weights"]
        both = [case.queries.clone().requires_grad_(), case.documents.clone().requires_grad_()]
        maxsim_scores(*both, weights=weights).sum().backward()
        for idx in range(2):
            tensors = [case.queries.clone(), case.documents.clone()]
            tensors[idx].requires_grad_()
            maxsim_scores(*tensors, weights=weights).sum().backward()
            self.assertTrue(torch.equal(tensors[idx].grad, both[idx].grad))

    def test_training_brings_the_loss_down(self):
        random = torch.Generator().manual_seed(SEED)
        states, targets = torch.randn(16, 10, 32, generator=random), torch.arange(16)
        head = torch.nn.Linear(32, 16, bias=False)
        optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
        losses = []
        for _ in range(30):
            noisy = states + 0.5 * torch.randn(states.shape, generator=random)
            vectors = torch.nn.functional.normalize(head(noisy), dim=-1)
            documents = torch.nn.functional.normalize(head(states), dim=-1)
            loss = torch.nn.functional.cross_entropy(maxsim_scores(vectors, documents), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], losses[0] / 2)


@unittest.skipUnless(
    torch.cuda.is_available() and maxsim_torch.device_available("cuda"), "needs a GPU, and CUDA in the library"
)
class CudaTest(SeededTest):
    def test_scores_matches_and_gradients_are_those_of_float64(self):
        for name, case in cases():
            with self.subTest(name):
                scores, argmax, gradients = case.run(maxsim_scores, device="cuda")
                expected, expected_argmax, expected_gradients = case.run(reference.maxsim_scores, torch.float64)
                torch.testing.assert_close(scores.cpu().double(), expected, rtol=1e-5, atol=1e-3)
                self.assertTrue(torch.equal(argmax.cpu(), expected_argmax))
                for of, gradient in gradients.items():
                    wanted = expected_gradients[of]
                    allowed = 1e-5 if of != "weights" else 1e-4
                    rounding = 0 if of == "weights" else ROUNDING[gradient.dtype]
                    difference = (gradient.cpu().double() - wanted).abs() - rounding * wanted.abs()
                    self.assertLessEqual(difference.max().item(), allowed, of)

    def test_twenty_runs_have_the_same_bits(self):
        case = Case(torch.bfloat16, "candidates", ragged=True, masked=True, weighted=True)
        scores, argmax, gradients = case.run(maxsim_scores, device="cuda")
        for _ in range(20):
            again, argmax_again, gradients_again = case.run(maxsim_scores, device="cuda")
            self.assertTrue(torch.equal(scores, again) and torch.equal(argmax, argmax_again))
            for name, gradient in gradients.items():
                self.assertTrue(torch.equal(gradient, gradients_again[name]))

    def test_a_captured_step_gives_the_same_bits(self):
        queries = torch.randn(4, 40, 64, device="cuda", dtype=torch.float16, requires_grad=True)
        documents = torch.randn(6, 70, 64, device="cuda", dtype=torch.float16, requires_grad=True)

        def step():
            scores = maxsim_scores(queries, documents)
            return scores, *torch.autograd.grad(scores.diagonal().sum(), (queries, documents))

        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            expected = [tensor.clone() for tensor in step()]
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = step()
        for _ in range(3):
            graph.replay()
            torch.cuda.synchronize()
            for tensor, wanted in zip(captured, expected):
                self.assertTrue(torch.equal(tensor, wanted))

    def test_compiles_into_one_graph(self):
        def loss(queries, documents):
            scores = maxsim_scores(queries, documents)
            return torch.nn.functional.cross_entropy(scores, torch.arange(queries.shape[0], device=queries.device))

        tensors = [torch.randn(4, 12, 16, device="cuda", requires_grad=True) for _ in range(2)]
        results = []
        for function in (loss, torch.compile(loss, backend="aot_eager", fullgraph=True)):
            results.append(torch.autograd.grad(function(*tensors), tensors))
        for eager, traced in zip(*results):
            torch.testing.assert_close(eager, traced)

    def test_what_does_not_count_does_not_matter(self):
        expect_nothing_of_what_does_not_count(self, "cuda")

    def test_tensors_of_two_devices_are_refused(self):
        with self.assertRaisesRegex(ValueError, "a tensor of the call is on cpu"):
            maxsim_scores(torch.randn(1, 2, 8, device="cuda"), torch.randn(1, 2, 8))


class ErrorsTest(SeededTest):
    def refuse(self, error, pattern, *arguments, function=maxsim_scores, **more):
        with self.assertRaisesRegex(error, pattern):
            function(*arguments, **more)

    def test_an_error_names_the_argument(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        self.refuse(TypeError, "queries have the type torch.float64", queries.double(), documents)
        self.refuse(ValueError, "float16 with 8 columns", queries.half(), documents)
        self.refuse(ValueError, "documents torch.float32 with 7", queries, documents[..., :7])
        self.refuse(ValueError, r"queries have the shape \(8,\)", queries[0, 0], documents)
        self.refuse(ValueError, r"documents have the shape \(5, 8\)", queries, documents[0])
        self.refuse(ValueError, r"query_mask has the shape \(3,\)", queries, documents, query_mask=torch.ones(3))
        self.refuse(TypeError, "document_lengths have the type", queries, documents, document_lengths=torch.ones(4))
        self.refuse(ValueError, "2 queries are paired with 4", queries, documents, paired=True)
        self.refuse(ValueError, r"weights have the shape \(3,\)", queries, documents, weights=torch.ones(3))
        self.refuse(ValueError, "int8 alone has to", queries, documents, document_scales=torch.ones(4))
        self.refuse(ValueError, "documents of 4 queries", queries, documents[:, None])
        self.refuse(TypeError, "queries is of the type list; it is a torch.Tensor", [[1.0]], documents)
        self.refuse(TypeError, "document_lengths is of the type list", queries, documents, document_lengths=[5] * 4)
        self.refuse(TypeError, "candidates is of the type int", queries, documents, candidates=3)

    def test_a_mask_of_numbers_holds_zeros_and_ones(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        mask = torch.tensor([[True] * 3 + [False] * 2] * 4)
        wanted = maxsim_scores(queries, documents, document_mask=mask)
        for dtype in (torch.uint8, torch.int64, torch.float16, torch.float32):
            found = maxsim_scores(queries, documents, document_mask=mask.to(dtype))
            self.assertTrue(torch.equal(found, wanted), dtype)
        for hidden in (-1e4, float("-inf"), float("nan"), 0.5):
            additive = torch.where(mask, 0.0, hidden)
            message = r"document_mask has the value (-10000.0|-inf|nan|0.5) at 3 of its 20; it is of booleans, or of 0"
            self.refuse(ValueError, message, queries, documents, document_mask=additive)
        self.refuse(ValueError, "query_mask has the value 2 at 0", queries, documents, query_mask=torch.full((2, 3), 2))

    def test_an_error_names_the_limit(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        wide, thin = torch.randn(1, 1, 4097), torch.randn(1, 1, 0)
        self.refuse(ValueError, "queries have 4097 columns; they have 1 to 4096", wide, wide)
        self.refuse(ValueError, "queries have 0 columns", thin, thin)
        long_query, long_document = torch.randn(1, 4097, 8), torch.zeros(1, 65_537, 8)
        self.refuse(ValueError, "a query has up to 4097 tokens; at most 4096", long_query, documents)
        self.refuse(ValueError, "a document has up to 65537 tokens; at most 65536", queries, long_document)
        rows, offsets = torch.randn(9, 8), torch.tensor([0, 4, 9])
        more = {"function": maxsim_scores_packed, "query_offsets": offsets, "max_query_tokens": 4097}
        self.refuse(ValueError, "max_query_tokens is 4097; it is 0 to 4096", rows, rows, offsets, **more)
        more["max_query_tokens"] = 5.0
        self.refuse(TypeError, "max_query_tokens is of the type float; it is an integer", rows, rows, offsets, **more)

    def test_a_wrong_value_is_named_on_the_cpu(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        wrong = {"candidates": torch.tensor([[0, 4], [1, 1]])}
        self.refuse(ValueError, r"candidates\[0, 1\] is 4; it is 0 to 3", queries, documents, **wrong)
        wrong = {"document_lengths": torch.tensor([5, 6, 1, 1])}
        self.refuse(ValueError, r"document_lengths\[1\] is 6; it is 0 to 5", queries, documents, **wrong)
        wrong = {"query_lengths": torch.tensor(-1)}
        self.refuse(ValueError, "query_lengths is -1; it is 0 to 3", queries[0], documents, **wrong)
        none = {"candidates": torch.tensor([[0], [0]])}
        self.refuse(ValueError, r"candidates\[0, 0\] is 0; there are none", queries, documents[:0], **none)
        wrong = {"candidates": torch.tensor([[0, 1]])}
        self.refuse(ValueError, r"candidates .* \(1, 2\); they are \[K\] for one query", queries[0], documents, **wrong)

    def test_numbers_are_numbers(self):
        queries, documents = torch.randn(2, 3, 8), torch.randn(4, 5, 8)
        self.refuse(TypeError, "empty_score is of the type NoneType", queries, documents, empty_score=None)
        self.refuse(TypeError, "queries is of the type NoneType; it is a torch.Tensor", None, documents)
        of_numpy = maxsim_scores(queries, documents[:, :0], empty_score=np.float32(-2))
        self.assertEqual(of_numpy.unique().tolist(), [-2])
        wrong = {"document_lengths": torch.ones(4, dtype=torch.complex64)}
        self.refuse(TypeError, "document_lengths have the type torch.complex64", queries, documents, **wrong)

    def test_packed_arguments_that_do_not_fit(self):
        rows, offsets = torch.randn(9, 8), torch.tensor([0, 4, 9])
        packed = {"function": maxsim_scores_packed}
        self.refuse(ValueError, "come with max_query_tokens", rows, rows, offsets, query_offsets=offsets, **packed)
        self.refuse(ValueError, "is of packed queries", rows, rows, offsets, max_query_tokens=5, **packed)
        self.refuse(ValueError, r"documents .*; packed ones are \[tokens, d\]", rows, rows[None], offsets, **packed)
        self.refuse(ValueError, r"document_offsets\[1\] is 14; it is 0 to 9", rows, rows, offsets[[0, 2]] + 5, **packed)
        self.refuse(ValueError, r"offsets\[1\] is 2, and the one before 4", rows, rows, torch.tensor([4, 2]), **packed)
        self.refuse(ValueError, "document_offsets are empty", rows, rows, offsets[:0], **packed)
        packed["document_lengths"] = torch.tensor([4, 5])
        self.refuse(ValueError, "document 1 has 5 tokens from row 5 on", rows, rows, torch.tensor([0, 5]), **packed)
        del packed["document_lengths"]
        more = {"query_offsets": offsets, "max_query_tokens": 4}
        self.refuse(ValueError, "query 1 has 5 tokens; it has at most 4", rows, rows, offsets, **more, **packed)

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
        self.refuse(ValueError, r"document_scales have the shape \(6,\), and neither \(2,\) nor", rows, rows, **more)
        offsets = torch.tensor([0, 1, 3])
        more = {"query_scales": scales, "document_scales": torch.ones(4), "function": maxsim_scores_packed}
        pattern = r"shape \(4,\), and neither \(2,\), \(3,\) nor \(3, 1\)"
        self.refuse(ValueError, pattern, rows, rows[0], offsets, **more)

    def test_other_devices_are_refused_by_name(self):
        for device, pattern in (("xpu:0", "on xpu:0; maxsim_torch computes on cpu and cuda"), ("mps", "on mps")):
            with self.assertRaisesRegex(NotImplementedError, pattern):
                call_memory.CallMemory(library.Call, torch.device(device))
        with mock.patch("torch.version.hip", "6.2"), self.assertRaisesRegex(NotImplementedError, "of ROCm 6.2"):
            call_memory.CallMemory(library.Call, torch.device("cuda:0"))


class PagesTest(SeededTest):
    def test_the_page_and_the_readme_run(self):
        for page in (ROOT / "docs" / "use" / "pytorch.md", ROOT / "client" / "torch" / "README.md"):
            text = page.read_text()
            codes = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                for code in codes:
                    exec(compile(code, str(page), "exec"), {})
            self.assertEqual(printed.getvalue(), "".join(re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)))
            self.assertTrue(codes)


class LibraryTest(SeededTest):
    def test_says_its_version_and_its_devices(self):
        self.assertRegex(maxsim_torch.library_version(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(maxsim_torch.__version__, maxsim_torch.library_version())
        self.assertTrue(maxsim_torch.device_available("cpu"))
        self.assertIsInstance(maxsim_torch.device_available("cuda"), bool)
        with self.assertRaisesRegex(ValueError, "device is 'tpu'"):
            maxsim_torch.device_available("tpu")


if __name__ == "__main__":
    print(f"MAXSIM_TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
