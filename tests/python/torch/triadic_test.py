"""Tests maxsim_torch's three-way attention and three-way MaxSim on the CPU and, if there is one, on a GPU. Compares
results and gradients with plain PyTorch in float64, and runs PyTorch's checks of operators.

python triadic_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import math
import os
import pathlib
import sys
import unittest

os.environ["MAXSIM_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client" / "torch"))

import torch  # noqa: E402

import maxsim_torch  # noqa: E402
from maxsim_torch import reference, triadic_attention, triadic_maxsim_scores  # noqa: E402

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
SEED = int(os.environ.get("MAXSIM_TEST_SEED", "20240611"))
DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() and maxsim_torch.device_available("cuda") else [])
ROUNDING = {torch.float32: 0.0, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


class Case:
    """Random tensors for an operator. `rows` is the number of tokens of each tensor. With `ragged`, sequences have
    different lengths."""

    def __init__(self, dtype, dim, rows, length_names, ragged=False, ties=False, outer=(2, 3)):
        random = torch.Generator().manual_seed(SEED)

        def values(*shape):
            if ties:
                return torch.randint(-2, 3, shape, generator=random).to(dtype)
            return torch.randn(shape, generator=random).to(dtype)

        self.tensors = [values(*outer, count, dim) for count in rows]
        self.arguments = {}
        for place, name in enumerate(length_names if ragged else ()):
            count = rows[-len(length_names) + place] if len(rows) == 3 else rows[1 + place]
            lengths = torch.randint(1, count + 1, outer, generator=random)
            lengths.view(-1)[place + 1] = 0
            self.arguments[name] = lengths

    def run(self, function, dtype=None, device="cpu", saved=None, **more):
        """Returns the function's results, and the gradients of a randomly weighted sum of the first result. If `saved`
        is set, the gradients are those of a backward pass that gets `saved` as the forward pass's output."""
        tensors = [tensor.detach().to(device, dtype or tensor.dtype).requires_grad_() for tensor in self.tensors]
        arguments = {
            name: value.to(device) if isinstance(value, torch.Tensor) else value
            for name, value in self.arguments.items()
        }
        results = function(*tensors, **arguments, **more)
        results = results if isinstance(results, tuple) else (results,)
        mixture = torch.randint(-8, 9, results[0].shape, generator=torch.Generator().manual_seed(SEED)) / 8.0
        finite = torch.where(torch.isinf(results[0]), 0, results[0])
        loss = (finite * mixture.to(finite)).sum()
        if saved is not None:
            # The gradient of a logit is weight * (output gradient * values - output gradient * output). So another
            # output adds weight * error, which is also the derivative of error * lse.
            error = ((finite.detach() - saved.to(finite)) * mixture.to(finite)).sum(-1)
            loss = loss + (error * lse_of(*tensors[:3], **arguments, **more)).sum()
        loss.backward()
        return [result.detach().cpu() for result in results], [tensor.grad.cpu() for tensor in tensors]


def lse_of(queries, first, second, scale, first_lengths=None, second_lengths=None):
    """Returns the log-sum-exp of the logits of each query, or 0 if there are no keys."""
    logits = scale * torch.einsum("...ic,...jc,...kc->...ijk", queries, first, second)
    for lengths, shape in ((first_lengths, (1, -1, 1)), (second_lengths, (1, 1, -1))):
        if lengths is not None:
            count = logits.shape[-2 if shape[1] == -1 else -1]
            there = torch.arange(count).reshape(shape) < lengths.reshape(*lengths.shape, 1, 1, 1)
            logits = torch.where(there, logits, -1e30)
    return logits.flatten(-2).logsumexp(-1)


def attention_case(dtype, dim, ragged=False, rows=(5, 9, 12)):
    queries, first, second = rows
    return Case(dtype, dim, (queries, first, second, first, second), ("first_lengths", "second_lengths"), ragged)


def maxsim_case(dtype, dim, ragged=False, ties=False, rows=(5, 9, 12)):
    return Case(dtype, dim, rows, ("query_lengths", "first_lengths", "second_lengths"), ragged, ties)


class SeededTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(SEED)

    def expect_close(self, found, expected, relative):
        """Compares a tensor with float64, relative to the largest of the expected values."""
        scale = expected.abs().nan_to_num(posinf=0).max().item()
        torch.testing.assert_close(found.double(), expected, rtol=relative, atol=relative * scale + 1e-6)


class AttentionTest(SeededTest):
    def test_output_and_gradients_are_those_of_float64(self):
        for device, dtype, dim, ragged in itertools.product(DEVICES, FLOATS, (1, 8, 20, 64, 96), (False, True)):
            with self.subTest(f"{device} {dtype} d={dim} ragged={ragged}"):
                case = attention_case(dtype, dim, ragged)
                found, gradients = case.run(triadic_attention, device=device, scale=2 / math.sqrt(dim))
                # The backward pass gets the output of the forward pass, which is rounded.
                expected, expected_gradients = case.run(
                    reference.triadic_attention, torch.float64, saved=found[0], scale=2 / math.sqrt(dim)
                )
                self.assertEqual(found[0].dtype, dtype)
                self.expect_close(found[0], expected[0], 1e-5 + 6 * ROUNDING[dtype])
                for gradient, wanted in zip(gradients, expected_gradients):
                    self.assertEqual(gradient.dtype, dtype)
                    self.expect_close(gradient, wanted, 1e-5 + 10 * ROUNDING[dtype])

    def test_weights_of_value_gradients_sum_to_one(self):
        for device, dtype, dim in itertools.product(DEVICES, FLOATS, (16, 64, 96)):
            with self.subTest(f"{device} {dtype} d={dim}"):
                case = attention_case(dtype, dim, rows=(4, 18, 35))
                queries, *keys = (tensor.to(device) for tensor in case.tensors[:3])
                values = [torch.ones_like(key).requires_grad_() for key in keys]
                triadic_attention(queries, *keys, *values, scale=15 / math.sqrt(dim)).sum().backward()  # logits of 50
                for value in values:
                    sums = value.grad.double().sum(-2)
                    torch.testing.assert_close(sums, torch.full_like(sums, 4), rtol=4 * ROUNDING[dtype] + 1e-4, atol=0)

    def test_the_scale_is_the_inverse_root_of_the_columns(self):
        case = attention_case(torch.float32, 16)
        found = triadic_attention(*case.tensors)
        self.assertTrue(torch.equal(found, triadic_attention(*case.tensors, scale=0.25)))

    def test_ordinary_attention_is_a_case_of_it(self):
        queries, keys, values = (torch.randn(2, 7, 16) for _ in range(3))
        ones = torch.ones(2, 1, 16)
        found = triadic_attention(queries, keys, ones, values, ones)
        expected = torch.nn.functional.scaled_dot_product_attention(queries, keys, values)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)

    def test_keys_behind_the_lengths_do_not_matter(self):
        for device in DEVICES:
            case = attention_case(torch.bfloat16, 20, ragged=True)
            expected = case.run(triadic_attention, device=device)
            for place, tensor in enumerate(case.tensors[1:]):
                lengths = case.arguments["second_lengths" if place % 2 else "first_lengths"]
                tensor[torch.arange(tensor.shape[-2]) >= lengths.unsqueeze(-1)] = math.nan
            again = case.run(triadic_attention, device=device)
            for found, wanted in zip(itertools.chain(*again), itertools.chain(*expected)):
                self.assertTrue(torch.equal(found, wanted))

    def test_lengths_of_sequences_hold_for_all_heads(self):
        case = attention_case(torch.float32, 8)
        lengths = torch.tensor([[4], [9]])
        found = triadic_attention(*case.tensors, first_lengths=lengths)
        expected = triadic_attention(*case.tensors, first_lengths=lengths.expand(2, 3))
        self.assertTrue(torch.equal(found, expected))

    def test_twenty_runs_have_the_same_bits(self):
        for device, dtype in itertools.product(DEVICES, (torch.float32, torch.bfloat16)):
            case = attention_case(dtype, 32, ragged=True, rows=(20, 70, 66))
            expected = list(itertools.chain(*case.run(triadic_attention, device=device)))
            for _ in range(20):
                for found, wanted in zip(itertools.chain(*case.run(triadic_attention, device=device)), expected):
                    self.assertTrue(torch.equal(found, wanted))

    def test_opcheck(self):
        for device in DEVICES:
            case = attention_case(torch.float32, 8, ragged=True)
            tensors = [tensor.flatten(0, 1).to(device).requires_grad_() for tensor in case.tensors]
            lengths = [tensor.flatten().to(device) for tensor in case.arguments.values()]
            torch.library.opcheck(torch.ops.maxsim_torch.triadic.default, (*tensors, *lengths, 0.5))
            torch.library.opcheck(torch.ops.maxsim_torch.triadic.default, (*tensors, None, None, 0.5))
            tensors = [tensor.detach() for tensor in tensors]
            output, lse = torch.ops.maxsim_torch.triadic(*tensors, *lengths, 0.5)
            for asked in ([True] * 5, [True, False, False, True, False]):
                arguments = (torch.ones_like(output), output, lse, *tensors, *lengths, 0.5, asked)
                torch.library.opcheck(torch.ops.maxsim_torch.triadic_backward.default, arguments)

    def test_is_exported_for_any_number_of_tokens(self):
        class Model(torch.nn.Module):
            def forward(self, queries, first, second):
                return triadic_attention(queries, first, second, first, second)

        example = tuple(torch.randn(2, tokens, 8) for tokens in (4, 5, 6))
        shapes = tuple({1: torch.export.Dim(name)} for name in ("queries", "first", "second"))
        given = tuple(torch.randn(2, tokens, 8) for tokens in (7, 3, 4))
        for strict in (True, False):
            exported = torch.export.export(Model(), example, dynamic_shapes=shapes, strict=strict).module()
            torch.testing.assert_close(exported(*given), Model()(*given), rtol=0, atol=0)

    def test_compiles_into_one_graph(self):
        tensors = [tensor.requires_grad_() for tensor in attention_case(torch.float32, 8).tensors]
        results = []
        options = {"backend": "aot_eager", "fullgraph": True}
        for function in (
            triadic_attention,
            torch.compile(triadic_attention, **options),
            torch.compile(triadic_attention, dynamic=True, **options),
        ):
            results.append(torch.autograd.grad(function(*tensors).square().sum(), tensors))
        for eager, *traced in zip(*results):
            for one in traced:
                torch.testing.assert_close(eager, one)

    def test_an_error_names_the_argument(self):
        tensors = attention_case(torch.float32, 8).tensors
        for error, pattern, place, tensor in (
            (TypeError, "queries have type torch.float64", 0, tensors[0].double()),
            (ValueError, r"second_keys have shape \(8,\)", 2, tensors[2][0, 0, 0]),
            (ValueError, r"queries are .* and first_keys \(2, 3, 9, 7\)", 1, tensors[1][..., :7]),
            (ValueError, r"first_keys have shape \(2, 3, 9, 8\) and first_values", 3, tensors[3][..., :5, :]),
        ):
            with self.assertRaisesRegex(error, pattern):
                triadic_attention(*(tensor if place == idx else given for idx, given in enumerate(tensors)))
        with self.assertRaisesRegex(ValueError, r"first_lengths have shape \(5,\); must be \(2, 3\)"):
            triadic_attention(*tensors, first_lengths=torch.ones(5, dtype=torch.int64))
        with self.assertRaisesRegex(ValueError, "queries have 129 columns; must have 1 to 128"):
            triadic_attention(*(torch.ones(2, 129) for _ in range(5)))
        with self.assertRaisesRegex(ValueError, "queries have 65537 tokens; at most 65536"):
            triadic_attention(*(torch.ones(65_537, 1) for _ in range(5)))
        with self.assertRaisesRegex(TypeError, "scale is of type str; must be a number"):
            triadic_attention(*tensors, scale="1")
        with self.assertRaisesRegex(NotImplementedError, "scale requires a gradient, but has none"):
            triadic_attention(*tensors, scale=torch.tensor(0.5, requires_grad=True))
        with self.assertRaisesRegex(ValueError, "scale is inf; must be finite"):
            triadic_attention(*tensors, scale=float("inf"))
        with self.assertRaisesRegex(TypeError, "second_lengths is of type list"):
            triadic_attention(*tensors, second_lengths=[3])


class MaxSimTest(SeededTest):
    def test_scores_pairs_and_gradients_are_those_of_float64(self):
        for device, dtype, dim in itertools.product(DEVICES, FLOATS, (1, 8, 40)):
            for ragged, ties in ((False, False), (True, False), (True, True)):
                with self.subTest(f"{device} {dtype} d={dim} ragged={ragged} ties={ties}"):
                    case = maxsim_case(dtype, dim, ragged, ties)
                    found, gradients = case.run(triadic_maxsim_scores, device=device, return_argmax=True)
                    expected, expected_gradients = case.run(
                        reference.triadic_maxsim_scores, torch.float64, return_argmax=True
                    )
                    self.assertEqual([tensor.dtype for tensor in found], [torch.float32, torch.int32])
                    torch.testing.assert_close(found[0].double(), expected[0], rtol=1e-5, atol=1e-3)
                    self.assertTrue(torch.equal(found[1], expected[1]))
                    for gradient, wanted in zip(gradients, expected_gradients):
                        self.assertEqual(gradient.dtype, dtype)
                        self.expect_close(gradient, wanted, 1e-5 + ROUNDING[dtype])

    def test_weights_are_factors_of_tokens_and_have_gradients(self):
        case = maxsim_case(torch.float32, 8, ragged=True)
        results = []
        functions = (triadic_maxsim_scores, reference.triadic_maxsim_scores)
        for function, dtype in zip(functions, (torch.float32, torch.float64)):
            weights = torch.linspace(-1, 2, 30).reshape(2, 3, 5).to(dtype).requires_grad_()
            scores, _ = case.run(function, dtype, weights=weights)
            results.append((scores[0], weights.grad))
        for found, expected in zip(*results):
            torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)

    def test_twenty_runs_have_the_same_bits(self):
        for device in DEVICES:
            case = maxsim_case(torch.bfloat16, 32, ragged=True, rows=(20, 150, 80))
            expected = list(itertools.chain(*case.run(triadic_maxsim_scores, device=device)))
            for _ in range(20):
                for found, wanted in zip(itertools.chain(*case.run(triadic_maxsim_scores, device=device)), expected):
                    self.assertTrue(torch.equal(found, wanted))

    def test_opcheck(self):
        for device in DEVICES:
            case = maxsim_case(torch.float32, 8, ragged=True)
            tensors = [tensor.flatten(0, 1).to(device).requires_grad_() for tensor in case.tensors]
            lengths = [tensor.flatten().to(device) for tensor in case.arguments.values()]
            torch.library.opcheck(torch.ops.maxsim_torch.triadic_max.default, (*tensors, *lengths))
            tensors = [tensor.detach() for tensor in tensors]
            maxima, argmax = torch.ops.maxsim_torch.triadic_max(*tensors, *lengths)
            for asked in ([True] * 3, [False, True, False]):
                arguments = (torch.ones_like(maxima), argmax, *tensors, *lengths, asked)
                torch.library.opcheck(torch.ops.maxsim_torch.triadic_max_backward.default, arguments)

    def test_compiles_into_one_graph(self):
        tensors = [tensor.requires_grad_() for tensor in maxsim_case(torch.float32, 8).tensors]
        results = []
        compiled = torch.compile(triadic_maxsim_scores, backend="aot_eager", fullgraph=True)
        for function in (triadic_maxsim_scores, compiled):
            results.append(torch.autograd.grad(function(*tensors).square().sum(), tensors))
        for eager, traced in zip(*results):
            torch.testing.assert_close(eager, traced)

    def test_an_error_names_the_argument(self):
        tensors = maxsim_case(torch.float32, 8).tensors
        with self.assertRaisesRegex(ValueError, r"weights have shape \(5,\)"):
            triadic_maxsim_scores(*tensors, weights=torch.ones(5))
        with self.assertRaisesRegex(ValueError, r"second_lengths is 13; must be 0 to 12"):
            triadic_maxsim_scores(*tensors, second_lengths=torch.tensor(13))
        with self.assertRaisesRegex(TypeError, "query_lengths have type"):
            triadic_maxsim_scores(*tensors, query_lengths=torch.ones(2, 3))


if __name__ == "__main__":
    print(f"MAXSIM_TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
