"""Tests which tensors and transforms maxsim_torch's functions refuse, and that the default device does not matter.

python refusals_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import warnings
from unittest import mock

from torch_fixture import TorchTest, run_tests

import torch
from torch import func

from maxsim_torch import (
    chamfer_distance,
    fused_head_scores,
    host_blocks,
    maxsim_scores,
    maxsim_scores_packed,
    maxsim_top_k,
    nearest_distances,
    pylate_patch,
    residual_code_scores,
    triadic_attention,
    triadic_maxsim_scores,
)


class RefusalsTest(TorchTest):
    def setUp(self):
        super().setUp()
        self.queries, self.documents, self.more = self.values(2, 3, 8), self.values(4, 5, 8), self.values(2, 5, 8)
        self.offsets, self.rows = torch.tensor([0, 2, 5, 9]), self.values(9, 8)

    def codes(self):
        centroids, numbers = self.values(6, 8), torch.randint(0, 6, (4, 5), generator=self.random)
        residuals = torch.randint(0, 256, (4, 5, 2), generator=self.random).to(torch.uint8)
        return numbers, residuals, centroids, torch.tensor([-1.0, -0.5, 0.5, 1.0])

    def calls(self):
        """Returns, by name, a call of each function that takes a matrix of queries."""
        documents, more, codes = self.documents, self.more, self.codes()
        head, bias = self.values(8, 8), self.values(8)
        return {
            "maxsim_scores": lambda queries: maxsim_scores(queries, documents),
            "maxsim_scores_packed": lambda queries: maxsim_scores_packed(queries, self.rows, self.offsets),
            "maxsim_top_k": lambda queries: maxsim_top_k(queries, documents, 2).scores,
            "fused_head_scores": lambda queries: fused_head_scores(queries, documents, head, bias),
            "residual_code_scores": lambda queries: residual_code_scores(queries, *codes),
            "nearest_distances": lambda queries: nearest_distances(queries, more).distances,
            "chamfer_distance": lambda queries: chamfer_distance(queries, more),
            "triadic_attention": lambda queries: triadic_attention(queries, more, more, more, more),
            "triadic_maxsim_scores": lambda queries: triadic_maxsim_scores(queries, more, more),
        }

    def test_nested_and_sparse_tensors_are_refused_by_name(self):
        rows = [self.values(3, 8), self.values(3, 8)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nested tensors are a prototype
            nested = [torch.nested.nested_tensor(rows), torch.nested.nested_tensor(rows, layout=torch.jagged)]
        for name, call in self.calls().items():
            first = "x" if name in ("nearest_distances", "chamfer_distance") else "queries"
            for tensor in nested:
                with self.subTest(name, layout=tensor.layout):
                    self.refuse(TypeError, f"^{first} is a nested tensor, and must be dense: padded", call, tensor)
            with self.subTest(name):
                self.refuse(TypeError, f"^{first} has the layout torch.sparse_coo; ", call, self.queries.to_sparse())
        self.refuse(TypeError, "documents is a nested", maxsim_scores, self.queries, nested[1])
        mask = torch.ones(4, 5).to_sparse()
        self.refuse(
            TypeError, "document_mask has the", maxsim_scores, self.queries, self.documents, document_mask=mask
        )

    def test_complex_factors_are_refused_by_name(self):
        complex_weights = torch.ones(2, 3, dtype=torch.complex64)
        codes, head = self.codes(), self.values(8, 8)
        message = "weights have type torch.complex64; must be real numbers"
        for call in (
            lambda: maxsim_scores(self.queries, self.documents, weights=complex_weights),
            lambda: maxsim_scores_packed(self.queries, self.rows, self.offsets, weights=complex_weights),
            lambda: maxsim_top_k(self.queries, self.documents, 2, weights=complex_weights),
            lambda: residual_code_scores(self.queries, *codes, weights=complex_weights),
            lambda: triadic_maxsim_scores(self.queries, self.more, self.more, weights=complex_weights),
            lambda: fused_head_scores(self.queries, self.documents, head, token_weights=complex_weights),
        ):
            self.refuse(TypeError, message, call)
        bias = torch.ones(8, dtype=torch.complex64)
        self.refuse(TypeError, "^bias have type", fused_head_scores, self.queries, self.documents, head, bias)
        self.refuse(TypeError, "^weight have type", fused_head_scores, self.queries, self.documents, head + 1j)
        scales = torch.ones(2, dtype=torch.complex64)
        rows = torch.ones(2, 3, 8, dtype=torch.int8)
        more = {"query_scales": scales, "document_scales": scales.real}
        self.refuse(TypeError, "query_scales have type", maxsim_scores, rows, rows, **more)

    def test_derivatives_of_transforms_are_refused_in_plain_words(self):
        transforms = {
            "grad": lambda call, x: func.grad(lambda one: call(one).sum())(x),
            "vjp": lambda call, x: func.vjp(call, x),
            "jacrev": lambda call, x: func.jacrev(call)(x),
            "grad of vmap": lambda call, x: func.grad(lambda many: func.vmap(call)(many).sum())(x.unsqueeze(0)),
            "vmap of grad": lambda call, x: func.vmap(func.grad(lambda one: call(one).sum()))(x.unsqueeze(0)),
        }
        forward = {
            "jvp": lambda call, x: func.jvp(call, (x,), (x,)),
            "jacfwd": lambda call, x: func.jacfwd(call)(x),
            "hessian": lambda call, x: func.hessian(lambda one: call(one).sum())(x),
            "jvp of vmap": lambda call, x: func.jvp(func.vmap(call), (x.unsqueeze(0),), (x.unsqueeze(0),)),
        }
        for name, call in self.calls().items():
            if name == "maxsim_top_k":
                continue  # has no gradients by definition
            for how, transform in {**transforms, **forward}.items():
                # hessian uses forward mode and reverse mode, and either may be refused first.
                message = "forward-mode derivatives" if how in forward and how != "hessian" else "derivatives"
                with self.subTest(name, how=how):
                    pattern = f"^maxsim_torch::[a-z_0-9]+ has no {message} "
                    self.refuse(NotImplementedError, pattern, transform, call, self.queries)

    def test_transforms_that_do_not_differentiate_by_an_argument_work(self):
        def loss(scale):
            return scale * maxsim_scores(self.queries, self.documents).sum()

        expected = maxsim_scores(self.queries, self.documents).sum()
        torch.testing.assert_close(func.grad(loss)(torch.tensor(2.0)), expected)
        torch.testing.assert_close(func.jvp(loss, (torch.tensor(2.0),), (torch.tensor(1.0),))[1], expected)
        detached = func.grad(lambda x: (x.sum() * maxsim_scores(x.detach(), self.documents).sum()))(self.queries)
        torch.testing.assert_close(detached, expected.expand_as(self.queries))

    def test_packed_scales_of_one_document_are_compiled_for_any_size(self):
        rows = torch.randint(-127, 128, (9, 8), generator=self.random, dtype=torch.int8)
        queries = rows[:6].reshape(2, 3, 8)

        def score(queries, rows, offsets, scales, query_offsets, query_scales):
            more = {"document_scales": scales, "query_scales": query_scales}
            longest = {"query_offsets": query_offsets, "max_query_tokens": 9}
            first = maxsim_scores_packed(queries[:1], rows, offsets, **more)
            return first, maxsim_scores_packed(rows, rows, offsets, **more, **longest)

        for dynamic in (None, True):
            torch._dynamo.reset()
            compiled = torch.compile(score, backend="eager", fullgraph=True, dynamic=dynamic)
            for offsets, shape in itertools.product(
                (torch.tensor([0, 9]), torch.tensor([0, 4, 9])), ("documents", "column")
            ):
                scales = torch.rand((9, 1) if shape == "column" else (len(offsets) - 1,), generator=self.random)
                given = queries, rows, offsets, scales, torch.tensor([0, 9]), torch.ones(1)
                with self.subTest(dynamic=dynamic, offsets=offsets, shape=shape):
                    self.check_same_bits(compiled(*given), score(*given))

    def test_a_scale_of_the_only_token_is_that_of_its_document(self):
        rows, half = torch.randint(-127, 128, (1, 8), generator=self.random, dtype=torch.int8), torch.tensor([0.5])
        offsets, two = torch.tensor([0, 1]), torch.tensor(2.0)
        expected = (rows.double() @ rows.double().T).flatten()
        for scales in (half, half[:, None], half[0]):
            scores = maxsim_scores_packed(rows, rows, offsets, document_scales=scales, query_scales=two)
            self.check_same_bits([scores.double()], [expected])
            best = maxsim_top_k(rows, rows, 1, document_offsets=offsets, document_scales=scales, query_scales=two)
            self.check_same_bits([best.scores.double()], [expected])

    def test_no_tensor_is_made_on_the_default_device(self):
        calls, more = self.calls(), {"document_lengths": torch.tensor([5, 0, 2, 3])}
        named = torch.tensor([[0, 3], [1, 1]])
        float8 = self.documents.to(torch.float8_e4m3fn)
        head = self.values(8, 8)
        calls["lengths"] = lambda queries: maxsim_scores(queries, self.documents, **more, candidates=named)
        calls["lists"] = lambda queries: maxsim_scores(queries, self.documents.reshape(2, 2, 5, 8))
        calls["saved"] = lambda queries: maxsim_scores(queries, self.documents, save_documents="int8")
        calls["float8"] = lambda queries: maxsim_scores(queries.detach(), float8, candidates=named)
        calls["head"] = lambda queries: fused_head_scores(queries, self.documents, head, **more, candidates=named)
        lengths = torch.tensor([1, 3])
        calls["chamfer"] = lambda queries: chamfer_distance(queries, self.more, x_lengths=lengths)

        def results():
            found = {}
            for name, call in calls.items():
                queries = self.queries.clone().requires_grad_()
                made = call(queries)
                found[name] = [made, *(torch.autograd.grad(made.sum(), queries) if made.requires_grad else ())]
            return {**found, "offsets": [pylate_patch._offsets(list(self.documents))]}

        expected = results()
        with torch.device("meta"):
            found = results()
        for name, tensors in found.items():
            with self.subTest(name):
                self.check_same_bits(tensors, expected[name])

    def test_pinned_memory_is_named_to_be_the_hosts(self):
        made, empty = [], torch.empty

        def record(*arguments, **more):
            made.append((more.get("device"), more.pop("pin_memory", False)))
            return empty(*arguments, **more)

        with mock.patch("torch.empty", record), mock.patch("torch.cuda.Event"), torch.device("meta"):
            slot = host_blocks._Slot([self.rows], [4], torch.device("cpu"))
        self.assertEqual([str(device) for device, is_pinned in made if is_pinned], ["cpu"])
        self.assertEqual({tensor.device.type for tensor in (*slot.staged, *slot.on_device)}, {"cpu"})


if __name__ == "__main__":
    run_tests()
