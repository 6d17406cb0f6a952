"""Compares fused_head_scores with plain PyTorch in float64: scores, matches and gradients, for blocks of any size.

python fused_head_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import math
import unittest
from unittest import mock

from torch_fixture import CUDA, DEVICES, ROUNDING, TorchTest, on, run_tests

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from maxsim_torch import fused_head, fused_head_scores, maxsim_scores, reference

PAIRINGS = ("all", "paired", "lists", "candidates")
NAMES = ("queries", "hidden", "weight", "bias", "token_weights")


class HeadTest(TorchTest):
    def case(self, pairing="all", ragged=False, ties=False, query_tokens=9, tokens=20):
        """Returns random tensors (queries of 12 columns, hidden states of 24) and the other arguments of a call."""
        shape = {"all": (7,), "paired": (4,), "lists": (4, 3), "candidates": (7,)}[pairing]
        tensors = {
            "queries": self.values(4, query_tokens, 12, ties=ties),
            "hidden": self.values(*shape, tokens, 24, ties=ties),
            "weight": self.values(12, 24, ties=ties) / (1 if ties else 5),
            "bias": self.values(12, ties=ties),
            "token_weights": torch.randint(-4, 9, (4, query_tokens), generator=self.random) / 4.0,
        }
        # Empty queries and documents get a finite score, so that differences of scores are defined.
        more = {"empty_score": -3.0, "paired": pairing == "paired"}
        if pairing == "candidates":
            more["candidates"] = torch.randint(0, 7, (4, 5), generator=self.random)
        if ragged:
            more["query_lengths"] = torch.randint(0, query_tokens + 1, (4,), generator=self.random)
            more["document_lengths"] = torch.randint(0, tokens + 1, shape, generator=self.random)
            more["document_lengths"].view(-1)[2] = 0
            more["query_mask"] = torch.rand((4, query_tokens), generator=self.random) < 0.7
            more["document_mask"] = torch.rand((*shape, tokens), generator=self.random) < 0.6
        return tensors, more

    @staticmethod
    def run_case(function, tensors, more, dtype=torch.float32, device="cpu", **others):
        """Returns scores, matches, and the gradients of a weighted sum of the scores."""
        made = {}
        for name, tensor in tensors.items():
            kept = name == "token_weights" and dtype.itemsize == 2
            copy = tensor.detach().clone().to(device, torch.float32 if kept else dtype)
            made[name] = copy.requires_grad_()
        scores, argmax = function(**made, **on(device, more), return_argmax=True, **others)
        mixture = torch.randint(-8, 9, scores.shape, generator=torch.Generator().manual_seed(7)) / 8.0
        (scores * mixture.to(scores)).sum().backward()
        return [scores.detach(), argmax, *(tensor.grad for tensor in made.values())]

    def check_close(self, results, expected, dtype=torch.float32):
        self.assertTrue(torch.equal(results[1].cpu(), expected[1]))
        torch.testing.assert_close(results[0].cpu().double(), expected[0], rtol=1e-5, atol=1e-4)
        for name, gradient, wanted in zip(NAMES, results[2:], expected[2:]):
            # A gradient is rounded to its type three times, and these errors add up over the documents.
            allowed = 2e-5 + 8 * ROUNDING[dtype] * wanted.abs().max().item()
            self.assertLessEqual((gradient.cpu().double() - wanted).abs().max().item(), allowed, name)


class FusedHeadTest(HeadTest):
    def test_scores_matches_and_gradients_are_those_of_float64(self):
        # Documents have 20 tokens. With 33 query tokens all of them may be matched, with 3 only a few.
        options = itertools.product(PAIRINGS, (False, True), (True, False), (3, 33), (None, 2))
        for pairing, ragged, normalize, query_tokens, block in options:
            with self.subTest(pairing=pairing, ragged=ragged, normalize=normalize, tokens=query_tokens, block=block):
                case = self.case(pairing, ragged, query_tokens=query_tokens)
                expected = self.run_case(reference.fused_head_scores, *case, torch.float64, normalize=normalize)
                for device in DEVICES:
                    more = {"normalize": normalize, "block_documents": block, "device": device}
                    self.check_close(self.run_case(fused_head_scores, *case, **more), expected)

    def test_ties_go_to_the_first_token_in_every_type(self):
        for pairing, dtype, device in itertools.product(PAIRINGS, ROUNDING, DEVICES):
            with self.subTest(pairing=pairing, dtype=dtype, device=device):
                case = self.case(pairing, ragged=True, ties=True)
                expected = self.run_case(reference.fused_head_scores, *case, torch.float64, normalize=False)
                more = {"normalize": False, "block_documents": 3, "device": device}
                self.check_close(self.run_case(fused_head_scores, *case, dtype, **more), expected, dtype)

    def test_one_block_has_the_scores_of_vectors_made_before(self):
        tensors, _ = self.case(ragged=True)
        for dtype, device in itertools.product(ROUNDING, DEVICES):
            queries, hidden, weight, bias = (tensors[name].to(device, dtype) for name in NAMES[:4])
            vectors = torch.nn.functional.linear(hidden, weight, bias).float()
            vectors = (vectors / vectors.norm(dim=-1, keepdim=True)).to(dtype)
            expected = maxsim_scores(queries, vectors)
            scores = fused_head_scores(queries, hidden, weight, bias)
            self.assertEqual(scores.dtype, torch.float32)
            torch.testing.assert_close(scores, expected, rtol=4 * ROUNDING[dtype], atol=9 * ROUNDING[dtype])

    def test_one_query_is_a_batch_of_one_without_its_dimension(self):
        tensors, more = self.case("candidates")
        queries, hidden, weight, named = tensors["queries"], tensors["hidden"], tensors["weight"], more["candidates"]
        whole = fused_head_scores(queries[:1], hidden, weight)
        self.check_same_bits([fused_head_scores(queries[0], hidden, weight)], [whole[0]])
        scores = fused_head_scores(queries[0], hidden, weight, candidates=named[0], block_documents=7)
        torch.testing.assert_close(scores, whole[0, named[0]])
        lists = fused_head_scores(queries[0], hidden[None], weight, query_lengths=torch.tensor(9))
        torch.testing.assert_close(lists, whole[0])
        self.assertEqual(fused_head_scores(queries[0], hidden[:1], weight, paired=True).shape, ())
        self.assertEqual(fused_head_scores(queries, hidden[:0], weight).shape, (4, 0))

    def test_what_does_not_count_does_not_matter(self):
        for pairing, device in itertools.product(PAIRINGS, DEVICES):
            tensors, more = self.case(pairing, ragged=True)
            results = self.run_case(fused_head_scores, tensors, more, device=device, block_documents=2)
            for name, kind in (("queries", "query"), ("hidden", "document")):
                shape = tuple(tensors[name].shape[:-1])
                counts = reference.counting(shape, more[f"{kind}_lengths"], more[f"{kind}_mask"], torch.device("cpu"))
                tensors[name][~counts] = math.nan
                if kind == "query":
                    tensors["token_weights"][~counts] = math.nan
            again = self.run_case(fused_head_scores, tensors, more, device=device, block_documents=2)
            self.check_same_bits(again, results)

    def test_a_state_without_length_gets_the_gradient_of_torch(self):
        tensors, more = self.case()
        tensors["hidden"][:, :5] = 0
        tensors["bias"].zero_()
        expected = self.run_case(reference.fused_head_scores, tensors, more, torch.float64)
        results = self.run_case(fused_head_scores, tensors, more)
        for gradient, wanted in zip(results[2:], expected[2:]):
            scale = wanted.abs().max().item()
            torch.testing.assert_close(gradient.double(), wanted, rtol=1e-4, atol=1e-6 * scale)

    def test_twenty_runs_have_the_same_bits(self):
        for pairing, device in itertools.product(("all", "candidates"), DEVICES):
            case = self.case(pairing, ragged=True)
            options = {"dtype": torch.bfloat16, "device": device, "block_documents": 2}
            results = self.run_case(fused_head_scores, *case, **options)
            for _ in range(20):
                self.check_same_bits(self.run_case(fused_head_scores, *case, **options), results)

    def test_autocast_changes_nothing(self):
        tensors, more = self.case()
        expected = self.run_case(fused_head_scores, tensors, more)

        def forward_alone(**arguments):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return fused_head_scores(**arguments)

        for result, wanted in zip(self.run_case(forward_alone, tensors, more), expected):
            self.assertTrue(torch.equal(result, wanted))

    def test_gradients_of_one_input_alone(self):
        tensors, _ = self.case()
        everything = self.run_case(fused_head_scores, tensors, {})[2:]
        mixture = torch.randint(-8, 9, (4, 7), generator=torch.Generator().manual_seed(7)) / 8.0
        for name, wanted in zip(NAMES, everything):
            given = {other: tensor.detach().clone() for other, tensor in tensors.items()}
            given[name].requires_grad_()
            (fused_head_scores(**given) * mixture).sum().backward()
            self.check_same_bits([given[name].grad], [wanted])

    def test_a_head_in_float32_meets_states_in_bfloat16(self):
        tensors, _ = self.case()
        weight = tensors["weight"].requires_grad_()
        scores = fused_head_scores(tensors["queries"].bfloat16(), tensors["hidden"].bfloat16(), weight)
        scores.sum().backward()
        self.assertEqual((weight.grad.dtype, scores.dtype), (torch.float32, torch.float32))


class OperatorTest(HeadTest):
    def operator_arguments(self, pairing, **more):
        tensors, others = self.case(pairing, ragged=True)
        taken = []

        def take(*arguments):
            taken.append(arguments)
            return torch.ops.maxsim_torch.fused_head(*arguments)

        with mock.patch("maxsim_torch.head_scores.fused_head", take):
            fused_head_scores(**{name: tensor.requires_grad_() for name, tensor in tensors.items()}, **others, **more)
        return taken[0]

    def test_pytorch_finds_nothing_wrong_with_the_operators(self):
        for pairing in ("all", "lists", "candidates"):
            arguments = self.operator_arguments(pairing, block_documents=2)
            torch.library.opcheck(torch.ops.maxsim_torch.fused_head.default, arguments)
            scores, argmax = torch.ops.maxsim_torch.fused_head(*arguments)
            plain = [value.detach() if isinstance(value, torch.Tensor) else value for value in arguments]
            backward = (*plain[:10], plain[10], plain[11], plain[13], plain[14])
            for wanted in ((True,) * 5, (False, False, True, False, False)):
                torch.library.opcheck(
                    torch.ops.maxsim_torch.fused_head_backward.default,
                    (torch.ones_like(scores), argmax.detach(), *backward, *wanted),
                )

    def test_compiles_into_one_graph(self):
        def loss(queries, hidden, weight, bias, lengths):
            scores = fused_head_scores(queries, hidden, weight, bias, document_lengths=lengths)
            return torch.nn.functional.cross_entropy(scores, torch.arange(queries.shape[0]))

        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=dynamic)
            for size in (4, 6):
                tensors = [
                    self.values(*shape).requires_grad_()
                    for shape in ((size, 5, 12), (size + 3, 20, 24), (12, 24), (12,))
                ]
                lengths = torch.randint(1, 21, (size + 3,), generator=self.random)
                results = [torch.autograd.grad(function(*tensors, lengths), tensors) for function in (loss, compiled)]
                for eager, traced in zip(*results):
                    torch.testing.assert_close(eager, traced)

    def test_the_vectors_of_all_documents_never_exist(self):
        seen = []

        class Sizes(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), more=None):
                result = function(*arguments, **(more or {}))
                made = result if isinstance(result, (tuple, list)) else [result]
                seen.extend(tensor.numel() for tensor in made if isinstance(tensor, torch.Tensor))
                return result

        queries, hidden, weight = self.values(2, 3, 12), self.values(64, 20, 24), self.values(12, 24)
        numbers = (None, None, None, None, None, None, None, 0, 64)
        with Sizes():
            scores, argmax = fused_head.fused_head.compute(queries, hidden, weight, *numbers, 0.0, True, 4, True)
            hidden_of_views = max(size for size in seen if size != hidden.numel())
            self.assertLessEqual(hidden_of_views, 4 * 20 * 24)
            seen.clear()
            backward = fused_head.fused_head_backward.compute
            backward(scores, argmax, queries, hidden, weight, *numbers, True, 4, True, False, True, False, False)
        self.assertLessEqual(max(seen), 4 * 20 * 24)
        self.assertGreater(len(seen), 16)

    @unittest.skipUnless(CUDA, "needs a GPU, and CUDA in the library")
    def test_memory_on_a_gpu_is_that_of_a_block(self):
        queries = torch.randn(8, 32, 128, device="cuda", dtype=torch.float16)
        hidden = torch.randn(2048, 256, 384, device="cuda", dtype=torch.float16)
        weight = torch.randn(128, 384, device="cuda", dtype=torch.float16, requires_grad=True)
        block_bytes = 64 * 256 * 128 * 4
        fused_head_scores(queries, hidden[:64], weight).sum().backward()  # libraries take their workspaces
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        scores = fused_head_scores(queries, hidden, weight, block_documents=64)
        kept = scores.numel() * 4 * 33
        self.assertLess(torch.cuda.max_memory_allocated() - before - kept, 4 * block_bytes)
        torch.cuda.reset_peak_memory_stats()
        scores.sum().backward()
        self.assertLess(torch.cuda.max_memory_allocated() - before - kept, 8 * block_bytes)


class ErrorsTest(TorchTest):
    def test_an_error_names_the_argument(self):
        queries, hidden, weight = self.values(2, 3, 4), self.values(5, 6, 8), self.values(4, 8)

        def refuse(error, pattern, *arguments, **more):
            self.refuse(error, pattern, fused_head_scores, *arguments, **more)

        refuse(TypeError, "hidden torch.float64; both must have one type", queries, hidden.double(), weight)
        refuse(TypeError, "queries have type torch.float16", queries.half(), hidden, weight)
        refuse(ValueError, r"weight has shape \(8, 4\); .* it must be \(4, 8\)", queries, hidden, weight.T)
        refuse(ValueError, r"bias has shape \(3,\); .* it must be \(4,\)", queries, hidden, weight, weight[0, :3])
        refuse(ValueError, r"hidden has shape \(6, 8\)", queries, hidden[0], weight)
        refuse(ValueError, r"queries have shape \(4,\)", queries[0, 0], hidden, weight)
        refuse(ValueError, "block_documents is 0; must be 1 or more", queries, hidden, weight, block_documents=0)
        refuse(TypeError, "block_documents is of type float", queries, hidden, weight, block_documents=2.0)
        refuse(ValueError, "hidden has 0 columns", queries, hidden[..., :0], weight[:, :0])
        refuse(TypeError, "weight is of type NoneType", queries, hidden, None)
        refuse(TypeError, "document_mask is of type bool", queries, hidden, weight, document_mask=True)
        refuse(ValueError, "queries have 5000 columns", torch.randn(2, 1, 5000), hidden, weight)
        refuse(ValueError, "hidden has documents of 5 queries, but there are 2", queries, hidden[:, None], weight)
        refuse(ValueError, "leave out paired", queries, hidden[:2, None], weight, paired=True)
        refuse(ValueError, "2 queries are paired with 5", queries, hidden, weight, paired=True)
        wrong = {"candidates": torch.tensor([[0], [5]])}
        refuse(ValueError, r"candidates\[1, 0\] is 5; must be 0 to 4", queries, hidden, weight, **wrong)
        wrong = {"token_weights": torch.ones(3)}
        refuse(ValueError, r"token_weights have shape \(3,\), not \(2, 3\)", queries, hidden, weight, **wrong)
        wrong = {"document_lengths": torch.tensor([1, 2, 7, 3, 4])}
        refuse(ValueError, r"document_lengths\[2\] is 7; must be 0 to 6", queries, hidden, weight, **wrong)


if __name__ == "__main__":
    run_tests()
