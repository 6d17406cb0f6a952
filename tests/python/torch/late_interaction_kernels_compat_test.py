"""Compares the scores and gradients of maxsim_torch.compat.late_interaction_kernels with their definition in float64,
for batches, pairs, packed sequences and padded sequences.

python late_interaction_kernels_compat_test.py LIBMAXSIM.so        with torch installed
"""

import importlib.metadata
import itertools
import warnings
from unittest import mock

import torch
from late_interaction_kernels_case import FLOATS, CompatTest, true_pair, true_scores
from torch_fixture import DEVICES, TorchTest, run_tests

import maxsim_torch.compat.late_interaction_kernels as lik
from maxsim_torch.compat.late_interaction_kernels import (
    _utils,
    autograd,
    backward,
    forward,
    padded,
    score_pairs,
    varlen,
)


class MaxsimTest(CompatTest):
    def setUp(self):
        super().setUp()
        silence = mock.patch.dict("os.environ", {"LIK_SUPPRESS_NORM_WARN": "1"})
        silence.start()
        self.addCleanup(silence.stop)

    def test_scores_and_gradients_of_every_layout_are_those_of_the_definition(self):
        for dtype, device, normalize, masked in itertools.product(FLOATS, DEVICES, (False, True), (False, True)):
            for shape in ((4,), (3, 2)):
                tensors = self.values(3, 7, 24), self.values(*shape, 11, 24)
                q_mask, d_mask = (self.mask(3, 7), self.mask(*shape, 11)) if masked else (None, None)
                moved = [None if mask is None else mask.to(device) for mask in (q_mask, d_mask)]
                with self.subTest(dtype=dtype, device=device, normalize=normalize, masked=masked, shape=shape):
                    self.check(
                        lambda Q, D, masks=moved, normalize=normalize: lik.maxsim(Q, D, *masks, normalize=normalize),
                        lambda Q, D, q=q_mask, d=d_mask, normalize=normalize: true_scores(Q, D, q, d, normalize),
                        tensors,
                        dtype,
                        device,
                        terms=40 if normalize and dtype != torch.float32 else 1,
                    )

    def test_pairs_are_the_diagonal(self):
        tensors = self.values(4, 6, 16), self.values(4, 9, 16)
        q_mask, d_mask = self.mask(4, 6), self.mask(4, 9)
        self.check(
            lambda Q, D: lik.maxsim_pairs(Q, D, q_mask, d_mask),
            lambda Q, D: true_scores(Q, D, q_mask, d_mask).diagonal(),
            tensors,
        )

    def test_inputs_without_a_batch_give_scores_without_it(self):
        Q, D = self.values(3, 5, 8), self.values(4, 6, 8)
        all_scores = lik.maxsim(Q, D)
        self.assertEqual(lik.maxsim(Q[0], D).tolist(), all_scores[0].tolist())
        self.assertEqual(lik.maxsim(Q, D[1]).tolist(), all_scores[:, 1].tolist())
        self.assertEqual(lik.maxsim(Q[2], D[3]).shape, ())
        mask = torch.tensor([True, False, True, False, False, True])
        by_vector = lik.maxsim(Q[2], D[3], torch.tensor([True] * 4 + [False]), mask)
        self.assertAlmostEqual(float(by_vector), float(true_pair(Q[2, :4], D[3], None, mask)), places=4)

    def test_a_document_in_which_nothing_counts_scores_0_and_has_no_gradient(self):
        for shape in ((3,), (2, 3)):
            Q, D = self.values(2, 5, 8).requires_grad_(), self.values(*shape, 6, 8).requires_grad_()
            d_mask = torch.ones(*shape, 6, dtype=torch.bool)
            d_mask[..., 1, :] = False
            scores = lik.maxsim(Q, D, d_mask=d_mask)
            self.assertEqual(scores[:, 1].tolist(), [0.0, 0.0])
            scores.sum().backward()
            self.assertEqual(float(D.grad[..., 1, :, :].abs().max()), 0)
            self.assertGreater(float(D.grad[..., 0, :, :].abs().max()), 0)

    def test_values_of_tokens_that_do_not_count_do_not_matter(self):
        Q, D = self.values(2, 5, 8), self.values(3, 6, 8)
        q_mask, d_mask = self.mask(2, 5), self.mask(3, 6)
        scores = lik.maxsim(Q, D, q_mask, d_mask)
        Q, D = Q.clone(), D.clone()
        Q[~q_mask], D[~d_mask] = float("nan"), float("inf")
        self.check_same_bits([lik.maxsim(Q, D, q_mask, d_mask)], [scores])

    def test_the_first_of_equal_tokens_gets_the_gradient(self):
        D = torch.ones(1, 4, 8, requires_grad=True)
        lik.maxsim(torch.ones(1, 2, 8), D).sum().backward()
        self.assertEqual(D.grad[0, :, 0].tolist(), [2.0, 0.0, 0.0, 0.0])

    def test_two_types_are_brought_to_the_one_that_holds_both(self):
        Q, D = self.values(2, 5, 8), self.values(3, 6, 8).half()
        self.check_same_bits([lik.maxsim(Q, D)], [lik.maxsim(Q, D.float())])
        self.check_same_bits([lik.maxsim(Q.bfloat16(), D)], [lik.maxsim(Q.bfloat16().float(), D.float())])
        self.check_same_bits([lik.maxsim(Q.double(), D)], [lik.maxsim(Q, D.float())])

    def test_a_query_beyond_4096_tokens_is_the_sum_of_its_parts(self):
        self.check(
            lambda Q, D: lik.maxsim(Q, D),
            lambda Q, D: torch.einsum("qid,kjd->qkij", Q, D).amax(-1).sum(-1),
            (self.values(1, 4101, 8), self.values(2, 3, 8)),
        )

    def test_every_backward_has_the_same_bits(self):
        gradients = []
        for method in (None, "auto", "unified", "lowmem"):
            Q, D = self.values(1, 5, 8), self.values(3, 6, 8)
            Q, D = torch.ones_like(Q).mul_(0.5).requires_grad_(), torch.arange(144.0).reshape(3, 6, 8).requires_grad_()
            lik.maxsim(Q, D, backward=method).sum().backward()
            gradients.append([Q.grad, D.grad])
        for others in gradients[1:]:
            self.check_same_bits(gradients[0], others)

    def test_no_grad_gives_scores_without_a_graph(self):
        Q, D = self.values(2, 5, 8).requires_grad_(), self.values(3, 6, 8)
        with torch.no_grad():
            self.assertIsNone(lik.maxsim(Q, D, normalize=True).grad_fn)

    def test_what_does_not_fit_is_refused(self):
        Q, D, lists = torch.ones(2, 5, 8), torch.ones(3, 6, 8), torch.ones(2, 3, 6, 8)
        self.refuse(ValueError, "Q has 8 columns and D 9", lik.maxsim, Q, torch.ones(3, 6, 9))
        self.refuse(ValueError, "backward is 'fast'", lik.maxsim, Q, D, backward="fast")
        self.refuse(ValueError, "needs Q to be", lik.maxsim, Q[0], lists)
        self.refuse(ValueError, r"D.shape\[0\] == Q.shape\[0\]", lik.maxsim, Q[:1], lists)
        self.refuse(ValueError, "columns", lik.maxsim, Q, torch.ones(2, 3, 6, 9))
        self.refuse(ValueError, "q_mask must be", lik.maxsim, Q, lists, torch.ones(2, 4))
        self.refuse(ValueError, "d_mask must be", lik.maxsim, Q, lists, None, torch.ones(2, 3, 5))
        self.refuse(ValueError, r"d_mask has shape \(3, 5\); must be", lik.maxsim, Q, D, None, torch.ones(3, 5))
        self.refuse(TypeError, "d_mask is of type list", lik.maxsim, Q, D, None, [1])
        self.refuse(ValueError, "one device", lik.maxsim, Q, D.to("meta"))
        self.refuse(ValueError, "q_mask is on meta", lik.maxsim, Q, D, torch.ones(2, 5, device="meta"))
        self.refuse(ValueError, r"\[B, L, d\]", lik.maxsim_pairs, Q[0], D)
        self.refuse(ValueError, r"Q.shape\[0\] == D.shape\[0\]", lik.maxsim_pairs, Q, D)

    def test_the_scores_stay_in_one_graph(self):
        Q, D = self.values(2, 5, 8), self.values(3, 6, 8)
        made = torch.compile(lik.maxsim, backend="aot_eager", fullgraph=True)(Q, D, normalize=True)
        torch.testing.assert_close(made, lik.maxsim(Q, D, normalize=True))


class WarningTest(TorchTest):
    def warnings_of(self, Q):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lik.maxsim(Q, torch.ones(1, 2, 8))
        return [str(warning.message) for warning in caught if warning.category is UserWarning]

    def test_tokens_that_are_not_normalised_are_told_of_once(self):
        for silent, expected in (("0", 1), ("1", 0)):
            with mock.patch.dict("os.environ", {"LIK_SUPPRESS_NORM_WARN": silent}):
                autograd._NORM_CHECKED = False
                found = self.warnings_of(torch.ones(1, 2, 8)) + self.warnings_of(torch.ones(1, 2, 8))
                self.assertEqual(len(found), expected)
        autograd._NORM_CHECKED = False
        self.assertEqual(self.warnings_of(torch.eye(8)[None]), [])
        self.assertTrue(autograd._NORM_CHECKED)


class PackedTest(CompatTest):
    """Uses packed queries of 5, 0 and 3 tokens, and packed documents of 4, 7, 0 and 1 tokens."""

    def setUp(self):
        super().setUp()
        self.cu_q = torch.tensor([0, 5, 5, 8], dtype=torch.int32)
        self.cu_d = torch.tensor([0, 4, 11, 11, 12])
        self.tensors = self.values(8, 16), self.values(12, 16)

    def true_pairs(self, Q, D, pairs):
        cu_q, cu_d = self.cu_q.tolist(), self.cu_d.tolist()
        return torch.stack([true_pair(Q[cu_q[i] : cu_q[i + 1]], D[cu_d[j] : cu_d[j + 1]]) for i, j in pairs])

    def test_packed_scores_and_gradients_are_those_of_the_definition(self):
        grid = list(itertools.product(range(3), range(4)))
        for dtype, device, bounds in itertools.product(FLOATS, DEVICES, ((None, None), (5, 7), (64, 300))):
            cu_q, cu_d = self.cu_q.to(device), self.cu_d.to(device)
            self.check(
                lambda Q, D, a=cu_q, b=cu_d, bounds=bounds: varlen.maxsim_varlen(Q, D, a, b, *bounds),
                lambda Q, D: self.true_pairs(Q, D, grid).reshape(3, 4),
                self.tensors,
                dtype,
                device,
            )

    def test_pairs_may_name_a_query_and_a_document_twice(self):
        pairs = [(2, 1), (0, 1), (0, 1), (1, 0), (2, 3), (0, 2)]
        for dtype, device in itertools.product(FLOATS, DEVICES):
            pair_q, pair_d = torch.tensor(pairs, dtype=torch.int32, device=device).unbind(1)
            cu_q, cu_d = self.cu_q.to(device), self.cu_d.to(device)
            self.check(
                lambda Q, D, a=cu_q, b=cu_d, p=pair_q, q=pair_d: score_pairs.score_pairs_packed(Q, D, a, b, p, q),
                lambda Q, D: self.true_pairs(Q, D, pairs),
                self.tensors,
                dtype,
                device,
            )

    def test_no_pairs_and_no_tokens_have_scores_too(self):
        none = torch.zeros(0, dtype=torch.int32)
        Q, D = (tensor.requires_grad_() for tensor in self.tensors)
        scores = score_pairs.score_pairs_packed(Q, D, self.cu_q, self.cu_d, none, none)
        self.assertEqual(scores.shape, (0,))
        scores.sum().backward()
        self.assertEqual(float(Q.grad.abs().max()), 0)
        offsets = torch.tensor([0, 0], dtype=torch.int32)
        index = torch.tensor([0])
        empty = score_pairs.score_pairs_packed(Q[:0], D, offsets, self.cu_d, index, index)
        self.assertEqual(empty.tolist(), [0.0])
        self.assertEqual(varlen.maxsim_varlen(Q[:0], D, offsets, self.cu_d).tolist(), [[0.0] * 4])

    def test_a_sequence_beyond_its_bound_is_refused(self):
        Q, D = self.tensors
        index = torch.tensor([0])
        for bounds, pattern in (
            ({"max_seqlen_q": 4}, "max_seqlen_q=4 is smaller"),
            ({"max_seqlen_d": 6}, "max_seqlen_d=6"),
        ):
            self.refuse(RuntimeError, pattern, varlen.maxsim_varlen, Q, D, self.cu_q, self.cu_d, **bounds)
            packed = (Q, D, self.cu_q, self.cu_d, index, index)
            self.refuse(RuntimeError, pattern, score_pairs.score_pairs_packed, *packed, **bounds)

    def test_what_does_not_fit_is_refused(self):
        Q, D = self.tensors
        index = torch.tensor([0])
        self.refuse(ValueError, "Q_packed must be 2-D", varlen.maxsim_varlen, Q[None], D, self.cu_q, self.cu_d)
        self.refuse(ValueError, "D_packed must be 2-D", varlen.maxsim_varlen, Q, D[None], self.cu_q, self.cu_d)
        self.refuse(ValueError, "16 columns and D_packed 8", varlen.maxsim_varlen, Q, D[:, :8], self.cu_q, self.cu_d)
        packed = (Q, D, self.cu_q, self.cu_d)
        self.refuse(ValueError, "vectors of one length", score_pairs.score_pairs_packed, *packed, index, index[:0])
        self.refuse(ValueError, r"pair_d_idx\[0\] is -1", score_pairs.score_pairs_packed, *packed, index, index - 1)


class PaddedTest(CompatTest):
    def setUp(self):
        super().setUp()
        self.tensors = self.values(2, 5, 8), self.values(2, 3, 6, 8)
        self.lengths = torch.tensor([5, 2]), torch.tensor([[6, 1, 3], [4, 0, 2]])

    def test_padded_scores_and_gradients_are_those_of_the_definition(self):
        q_mask, d_mask = (torch.arange(size) < lengths[..., None] for size, lengths in zip((5, 6), self.lengths))
        for dtype, device in itertools.product(FLOATS, DEVICES):
            lengths = [tensor.to(device) for tensor in self.lengths]
            self.check(
                lambda Q, D, lengths=lengths: padded.maxsim_padded(Q, D, *lengths),
                lambda Q, D: true_scores(Q, D, q_mask, d_mask),
                self.tensors,
                dtype,
                device,
            )

    def test_packing_keeps_scores_and_gradients(self):
        Q, D = (tensor.requires_grad_() for tensor in self.tensors)
        batch = padded.pack_padded(Q, D, *self.lengths)
        self.assertEqual(batch.cu_seqlens_q.tolist(), [0, 5, 7])
        self.assertEqual(batch.cu_seqlens_d.tolist(), [0, 6, 7, 10, 14, 14, 16])
        self.assertEqual(batch.pair_q_idx.tolist(), [0, 0, 0, 1, 1, 1])
        self.assertEqual(batch.pair_d_idx.tolist(), list(range(6)))
        self.assertEqual({batch.cu_seqlens_q.dtype, batch.cu_seqlens_d.dtype, batch.pair_q_idx.dtype}, {torch.int32})
        packed_q, cu_q, packed_d, cu_d, pair_q, pair_d, max_q, max_d = batch
        self.assertEqual((packed_q.shape, packed_d.shape, max_q, max_d), ((7, 8), (16, 8), 5, 6))
        bounds = {"max_seqlen_q": max_q, "max_seqlen_d": max_d}
        scores = score_pairs.score_pairs_packed(packed_q, packed_d, cu_q, cu_d, pair_q, pair_d, **bounds)
        expected = padded.maxsim_padded(Q, D, *self.lengths)
        torch.testing.assert_close(scores.reshape(2, 3), expected)
        one = torch.autograd.grad(scores.sum(), (Q, D))
        for gradient, other in zip(one, torch.autograd.grad(expected.sum(), (Q, D))):
            torch.testing.assert_close(gradient, other)

    def test_an_empty_batch_stays_empty(self):
        arguments = (torch.ones(0, 5, 8), torch.ones(0, 3, 6, 8), torch.ones(0, dtype=torch.int32), torch.ones(0, 3))
        batch = padded.pack_padded(*arguments[:3], arguments[3].int())
        self.assertEqual((batch.Q_packed.shape, batch.cu_seqlens_d.tolist(), batch.max_seqlen_d), ((0, 8), [0], 0))
        self.assertEqual(padded.maxsim_padded(*arguments[:3], arguments[3].int()).shape, (0, 3))

    def test_what_does_not_fit_is_refused(self):
        Q, D = self.tensors
        q, d = self.lengths
        for function in (padded.pack_padded, padded.maxsim_padded):
            self.refuse(ValueError, "queries must be", function, Q[0], D, q, d)
            self.refuse(ValueError, "documents must be", function, Q, D[0], q, d)
            self.refuse(ValueError, "batch size mismatch", function, Q[:1], D, q, d)
            self.refuse(ValueError, "embedding dim mismatch", function, Q[..., :4], D, q, d)
            self.refuse(ValueError, "query_lengths must be", function, Q, D, q[:1], d)
            self.refuse(ValueError, "doc_lengths must be", function, Q, D, q, d[:, :2])
            self.refuse(RuntimeError, "query_lengths exceed the 5", function, Q, D, q + 1, d)
            self.refuse(RuntimeError, "doc_lengths exceed the 6", function, Q, D, q, d + 1)
        self.refuse(ValueError, "doc_lengths must all be > 0", padded.pack_padded, Q, D, q, d, validate=True)
        self.refuse(ValueError, "query_lengths must all be > 0", padded.pack_padded, Q, D, q - 2, d, validate=True)
        self.refuse(ValueError, "exceed the 6", padded.pack_padded, Q, D, q, d + 1, validate=True)


class PassesTest(TorchTest):
    """The forward and the backward pass by themselves."""

    def test_matches_and_their_gradients_are_those_of_plain_pytorch(self):
        for kd_layout in (False, True):
            Q, D = self.values(2, 5, 8), self.values(6 if kd_layout else 3, 7, 8)
            q_mask = torch.rand(2, 5, generator=self.random) < 0.7
            d_mask = torch.rand(D.shape[:2], generator=self.random) < 0.7
            d_mask[1] = False
            scores, argmax = forward._run_forward(Q, D, q_mask, d_mask, True, kd_layout=kd_layout)
            self.assertEqual((scores.shape, argmax.shape, argmax.dtype), ((2, 3), (6, 5), torch.int32))
            factors = self.values(2, 3)
            given = (Q.clone().requires_grad_(), D.clone().requires_grad_())
            documents = given[1].reshape(2, 3, 7, 8) if kd_layout else given[1]
            masks = (q_mask, d_mask.reshape(documents.shape[:-1]))
            (lik.reference.maxsim_reference(*given, *masks) if not kd_layout else true_scores(
                given[0], documents, *masks
            ).float()).mul(factors).sum().backward()  # fmt: skip
            made = backward._gradients.gradients(factors, Q, D, argmax, q_mask, kd_layout)
            for one, other in zip(made, given):
                torch.testing.assert_close(one, other.grad)
            if not kd_layout:
                plain = backward.maxsim_backward_unified_reference(factors, Q, D, argmax, q_mask)
                for one, other in zip(plain, given):
                    torch.testing.assert_close(one, other.grad)

    def test_forward_has_the_shapes_of_its_inputs_and_no_gradients(self):
        Q, D = self.values(2, 5, 8).requires_grad_(), self.values(3, 7, 8)
        scores, argmax = forward.maxsim_forward(Q, D, normalize=True)
        self.assertIsNone(argmax)
        self.assertIsNone(scores.grad_fn)
        torch.testing.assert_close(scores, lik.maxsim(Q, D, normalize=True).detach())
        self.assertEqual(forward.maxsim_forward(Q[0], D[0])[0].shape, ())
        self.assertEqual(forward.maxsim_forward(Q[0], D, save_argmax=True)[1].shape, (3, 5))
        self.refuse(
            ValueError, "3 documents with kd_layout", forward._run_forward, Q, D, None, None, False, kd_layout=True
        )

    def test_gradients_out_of_matches_are_for_gpus(self):
        arguments = (torch.ones(1, 2), torch.ones(1, 4, 8), torch.ones(2, 4, 8), torch.zeros(2, 4, dtype=torch.int32))
        for function in (backward.maxsim_backward_lowmem, backward.maxsim_backward_unified):
            self.refuse(RuntimeError, f"{function.__name__} requires CUDA", function, *arguments)


class UtilitiesTest(TorchTest):
    def test_sizes_are_rounded_to_powers_of_two(self):
        self.assertEqual([_utils.next_pow2(size) for size in (-1, 0, 1, 2, 3, 1024, 1025)], [1, 1, 1, 2, 4, 1024, 2048])
        self.assertEqual([_utils.bucket_seqlen(size) for size in (0, 1, 16, 17, 1030)], [0, 16, 16, 32, 2048])

    def test_releases_are_compared_by_their_numbers(self):
        for version, expected in (
            ("1.5.1", True),
            ("1.5", False),
            ("1.10rc1", True),
            ("1.5.1.dev0", True),
            ("x", False),
        ):
            with mock.patch.object(importlib.metadata, "version", lambda _, version=version: version):
                self.assertEqual(_utils.package_at_least("any", "1.5.1"), expected, version)
        self.assertFalse(_utils.package_at_least("no-such-package-of-maxsim", "0"))

    def test_the_type_of_two_holds_both(self):
        values = {dtype: torch.ones(1, dtype=dtype) for dtype in (*FLOATS, torch.float64)}
        picked = {
            (a, b): _utils.pick_compute_dtype(values[a], values[b]) for a, b in itertools.product(values, repeat=2)
        }
        for pair, dtype in picked.items():
            self.assertEqual(dtype, pair[0] if pair[0] == pair[1] != torch.float64 else torch.float32, pair)

    def test_families_are_those_of_the_compute_capability(self):
        wanted = {
            (9, 0): "hopper",
            (10, 0): "blackwell",
            (12, 0): "ada",
            (8, 0): "a100",
            (8, 6): "ampere",
            (7, 5): "generic",
        }
        for capability, family in wanted.items():
            _utils.detect_gpu.cache_clear()
            self.addCleanup(_utils.detect_gpu.cache_clear)
            with (
                mock.patch("torch.cuda.is_available", lambda: True),
                mock.patch("torch.cuda.get_device_capability", lambda capability=capability: capability),
            ):
                self.assertEqual(_utils.detect_gpu(), family)

    def test_the_last_dimension_is_made_contiguous_where_it_is_not(self):
        X = self.values(4, 6)
        self.assertIs(_utils.ensure_contiguous_last(X), X)
        self.assertEqual(_utils.ensure_contiguous_last(X.T).stride(-1), 1)


if __name__ == "__main__":
    run_tests()
