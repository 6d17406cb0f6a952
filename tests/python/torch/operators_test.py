"""Tests what PyTorch requires of operators: traces, modes, transforms and derivatives.

python operators_test.py LIBMAXSIM.so        with torch installed
"""

import importlib
from unittest import mock

from scores_case import SEED, Case, SeededTest
from torch_fixture import run_tests

import torch
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode

from maxsim_torch import call_state, maxsim_scores, maxsim_scores_packed, operators


class OperatorTest(SeededTest):
    @staticmethod
    def inputs(case):
        """Returns the arguments that maxsim_scores passes to the operator."""
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
            # The backward operator has no arguments for scales, the empty score, and the flag that requests an argmax.
            backward = [*tensors[:6], *tensors[7:10], *tensors[11:18]]
            for wanted in ((True, True, tensors[2] is not None), (True, False, False)):
                torch.library.opcheck(
                    torch.ops.maxsim_torch.scores_backward.default,
                    (torch.ones_like(scores), argmax, *backward, *wanted),
                )

    def test_plain_tensors_are_computed_without_the_dispatcher(self):
        self.assertIsNotNone(call_state.dispatch)
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
        with self.assertRaisesRegex(ValueError, "a tensor of the call is on meta, but others are on cpu"):
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
        with self.assertRaisesRegex(ValueError, r"query_lengths have shape \(2,\); one query has one length"):
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


if __name__ == "__main__":
    run_tests()
