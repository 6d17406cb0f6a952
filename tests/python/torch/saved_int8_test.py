"""Tests how much save_documents="int8" changes the gradients of maxsim_scores.

python saved_int8_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import math
from unittest import mock

from torch_fixture import DEVICES, ROUNDING, TorchTest, on, run_tests

import torch

from maxsim_torch import maxsim_scores, saved_int8

PAIRINGS = ("all", "paired", "lists", "candidates")


class SavedInt8Test(TorchTest):
    def case(self, pairing, query_tokens=9, ragged=True, ties=False):
        shape = {"all": (6,), "paired": (4,), "lists": (4, 3), "candidates": (6,)}[pairing]
        tensors = {
            "queries": self.values(4, query_tokens, 24, ties=ties),
            "documents": self.values(*shape, 20, 24, ties=ties),
            "weights": torch.randint(-4, 9, (4, query_tokens), generator=self.random) / 4.0,
        }
        more = {"empty_score": -3.0, "paired": pairing == "paired"}
        if pairing == "candidates":
            more["candidates"] = torch.randint(0, 6, (4, 5), generator=self.random)
        if ragged:
            more["query_lengths"] = torch.randint(0, query_tokens + 1, (4,), generator=self.random)
            more["document_lengths"] = torch.randint(0, 21, shape, generator=self.random)
            more["document_mask"] = torch.rand((*shape, 20), generator=self.random) < 0.7
        return tensors, more

    @staticmethod
    def run_case(tensors, more, dtype=torch.float32, device="cpu", **others):
        """Returns scores, matches, the gradients of a weighted sum of the scores, and the weights of this sum."""
        made = {}
        for name, tensor in tensors.items():
            copy = tensor.detach().clone().to(device, torch.float32 if name == "weights" else dtype)
            made[name] = copy.requires_grad_()
        scores, argmax = maxsim_scores(**made, **on(device, more), return_argmax=True, **others)
        mixture = torch.randint(-8, 9, scores.shape, generator=torch.Generator().manual_seed(7)) / 8.0
        (scores * mixture.to(device)).sum().backward()
        return scores.detach(), argmax, {name: tensor.grad for name, tensor in made.items()}, mixture

    def bounds(self, tensors, more, argmax, mixture, dtype):
        """Returns the errors that maxsim_scores documents, for the gradients of queries [Nq, Lq, 1] and weights [Nq,
        Lq]."""
        documents = tensors["documents"].to(dtype).float()
        half = documents.abs().amax(-1).nan_to_num(0) / 254
        argmax = argmax.cpu()
        if "candidates" in more:
            half = half[more["candidates"]]
        elif more["paired"]:
            half, argmax, mixture = half[:, None], argmax[:, None], mixture[:, None]
        elif documents.dim() == 3:
            half = half.expand(4, *half.shape)
        errors = half.gather(-1, argmax.clamp_min(0).long()) * (argmax >= 0)
        errors = (errors * mixture.abs().unsqueeze(-1)).sum(1)
        of_weights = errors * tensors["queries"].to(dtype).float().abs().sum(-1).nan_to_num(0)
        return (errors * tensors["weights"].abs().nan_to_num(0)).unsqueeze(-1), of_weights

    def test_only_gradients_of_queries_and_weights_change_and_within_the_bound(self):
        for pairing, tokens, dtype, device in itertools.product(PAIRINGS, (3, 33), ROUNDING, DEVICES):
            with self.subTest(pairing=pairing, tokens=tokens, dtype=dtype, device=device):
                tensors, more = self.case(pairing, tokens)
                scores, argmax, exact, mixture = self.run_case(tensors, more, dtype, device)
                again, argmax_again, gradients, _ = self.run_case(tensors, more, dtype, device, save_documents="int8")
                self.check_same_bits([again, argmax_again], [scores, argmax])
                self.check_same_bits([gradients["documents"]], [exact["documents"]])
                of_queries, of_weights = self.bounds(tensors, more, argmax, mixture, dtype)
                for name, bound in (("queries", of_queries), ("weights", of_weights)):
                    wanted = exact[name].cpu().double()
                    difference = (gradients[name].cpu().double() - wanted).abs()
                    self.assertTrue(tokens == 3 or difference.max().item() > 0, name)
                    # Both gradients are rounded to their type, as are the vectors that the backward pass restores from
                    # INT8.
                    rounding = 8 * ROUNDING[dtype] * wanted.abs().max()
                    self.assertLessEqual((difference - bound).max().item(), rounding.item() + 1e-5, name)

    def test_integers_of_one_magnitude_are_kept_exactly(self):
        for pairing, device in itertools.product(PAIRINGS, DEVICES):
            tensors, more = self.case(pairing, ties=True)
            exact = self.run_case(tensors, more, device=device)[2]
            gradients = self.run_case(tensors, more, device=device, save_documents="int8")[2]
            for name, gradient in gradients.items():
                torch.testing.assert_close(gradient, exact[name], rtol=0, atol=1e-5)

    def test_rounding_is_half_of_a_scale_at_most(self):
        rows = self.values(50, 24) * torch.logspace(-20, 20, 50).unsqueeze(1)
        rows[7] = 0
        values, scales = saved_int8.quantize(rows)
        error = (values.double() * scales.double().unsqueeze(1) - rows.double()).abs()
        self.assertTrue((error <= 0.5001 * scales.double().unsqueeze(1)).all())
        self.assertEqual(values.abs().amax(1).unique().tolist(), [0, 127])

    def test_the_documents_are_not_kept(self):
        queries = self.values(2, 3, 8).requires_grad_()
        documents = self.values(4, 5, 8).requires_grad_()
        kept = []

        def keep(tensor):
            kept.append(tensor)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            maxsim_scores(queries, documents, save_documents="int8")
        self.assertTrue(any(tensor.dtype == torch.int8 and tensor.shape == documents.shape for tensor in kept))
        self.assertFalse(any(tensor.shape == documents.shape and tensor.is_floating_point() for tensor in kept))

    def test_what_does_not_count_does_not_matter(self):
        for device in DEVICES:
            tensors, more = self.case("all")
            before = self.run_case(tensors, more, device=device, save_documents="int8")[2]
            tensors["documents"][~more["document_mask"]] = math.nan
            after = self.run_case(tensors, more, device=device, save_documents="int8")[2]
            self.check_same_bits(list(before.values()), list(after.values()))

    def test_twenty_runs_and_any_block_have_the_same_documents(self):
        for pairing, device in itertools.product(PAIRINGS, DEVICES):
            tensors, more = self.case(pairing)
            options = {"dtype": torch.bfloat16, "device": device, "save_documents": "int8"}
            first = self.run_case(tensors, more, **options)[2]
            for _ in range(20 if pairing == "all" else 1):
                self.check_same_bits(list(self.run_case(tensors, more, **options)[2].values()), list(first.values()))
            for block in (1, 2, 5):
                with mock.patch("maxsim_torch.document_blocks.BLOCK_VALUES", block * 20 * 24):
                    gradients = self.run_case(tensors, more, **options)[2]
                self.check_same_bits([gradients["documents"]], [first["documents"]])
                torch.testing.assert_close(gradients["queries"], first["queries"], rtol=0.02, atol=0.02)

    def test_pytorch_finds_nothing_wrong_with_the_operators(self):
        for pairing in ("all", "candidates"):
            tensors, more = self.case(pairing)
            taken = []

            def take(*arguments, kept=taken):
                kept.append(arguments)
                return torch.ops.maxsim_torch.scores_saving_int8(*arguments)

            with mock.patch("maxsim_torch.saved_int8.scores_saving_int8", take):
                given = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
                maxsim_scores(**given, **more, save_documents="int8")
            operators = torch.ops.maxsim_torch
            utilities = "test_schema", "test_autograd_registration", "test_faketensor"
            torch.library.opcheck(operators.scores_saving_int8.default, taken[0], test_utils=utilities)
            plain = [value.detach() if isinstance(value, torch.Tensor) else value for value in taken[0]]
            scores, *kept = operators.scores_saving_int8(*plain)
            arguments = (torch.ones_like(scores), *kept, plain[0], *plain[2:5], *plain[7:10], 2, True, True, True)
            torch.library.opcheck(operators.scores_saving_int8_backward.default, arguments)

    def test_compiles_into_one_graph(self):
        def loss(queries, documents):
            scores = maxsim_scores(queries, documents, save_documents="int8")
            return torch.nn.functional.cross_entropy(scores, torch.arange(queries.shape[0]))

        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        tensors = [self.values(4, 9, 16).requires_grad_(), self.values(6, 20, 16).requires_grad_()]
        results = [torch.autograd.grad(function(*tensors), tensors) for function in (loss, compiled)]
        for eager, traced in zip(*results):
            torch.testing.assert_close(eager, traced)

    def test_keeps_int8_in_a_batch_of_transforms(self):
        queries, documents = self.values(4, 9, 16).requires_grad_(), self.values(6, 20, 16)
        with mock.patch.object(saved_int8, "quantize", wraps=saved_int8.quantize) as quantized:
            scores = torch.func.vmap(lambda query: maxsim_scores(query, documents, save_documents="int8"))(queries)
        self.assertEqual(quantized.call_count, len(queries))
        (gradient,) = torch.autograd.grad(scores.sum(), queries)
        once = maxsim_scores(queries, documents, save_documents="int8").sum()
        torch.testing.assert_close(gradient, torch.autograd.grad(once, queries)[0])

    def test_errors_name_the_argument(self):
        queries, documents = self.values(2, 3, 8), self.values(4, 5, 8)
        self.refuse(
            ValueError, "save_documents is 'int4'; must be", maxsim_scores, queries, documents, save_documents="int4"
        )
        rows, scales = torch.ones(2, 3, 8, dtype=torch.int8), torch.ones(2)
        more = {"query_scales": scales, "document_scales": scales, "save_documents": "int8"}
        self.refuse(ValueError, "queries are torch.int8", maxsim_scores, rows, rows, **more)


if __name__ == "__main__":
    run_tests()
