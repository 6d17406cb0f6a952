"""Tests the names of maxsim_torch.compat.late_interaction_kernels, and its parts other than scores of vectors:
retrieval, scorers, heads, residual codes, float8, and the plain PyTorch functions with which they are compared.

python late_interaction_kernels_parts_test.py LIBMAXSIM.so        with torch installed
"""

import importlib
import inspect
import itertools

import torch
from late_interaction_kernels_case import CompatTest, true_pair, true_scores
from torch_fixture import DEVICES, TorchTest, run_tests

import maxsim_torch.compat.late_interaction_kernels as lik
from maxsim_torch.compat.late_interaction_kernels import fp8, fused_head, mps, plaid, reference, topk

MASKS = "q_mask=None, d_mask=None"
PACKED = "Q_packed, D_packed, cu_seqlens_q, cu_seqlens_d"
LENGTHS = "queries, documents, query_lengths, doc_lengths"
CODES = "residuals, doc_lengths, centroids, bucket_weights, nbits, *, normalize=True"
GRADIENTS = "grad_scores, Q, D, argmax, q_mask=None, *, kd_layout=False"
# The arguments and defaults of late-interaction-kernels 0.4.5.
SIGNATURES = {
    "autograd.maxsim": f"Q, D, {MASKS}, *, normalize=False, backward=None",
    "autograd.maxsim_pairs": f"Q, D, {MASKS}, *, normalize=False, backward=None",
    "varlen.maxsim_varlen": f"{PACKED}, max_seqlen_q=None, max_seqlen_d=None",
    "score_pairs.score_pairs_packed": f"{PACKED}, pair_q_idx, pair_d_idx, *, max_seqlen_q=None, max_seqlen_d=None",
    "padded.pack_padded": f"{LENGTHS}, *, validate=False",
    "padded.maxsim_padded": f"{LENGTHS}, *, validate=False",
    "retrieve.MaxSimScorer": "*, normalize=True, backward='auto', mask_pad_token=None",
    "retrieve.retrieve": f"Q, D, top_k, {MASKS}, *, normalize=True, chunk=None, largest=True, sorted=True",
    "topk.maxsim_topk": f"Q, D, k, {MASKS}, *, normalize=False, chunk_size=None, largest=True, sorted=True",
    "forward.maxsim_forward": f"Q, D, {MASKS}, *, save_argmax=False, normalize=False",
    "backward.maxsim_backward_unified": GRADIENTS,
    "backward.maxsim_backward_lowmem": GRADIENTS,
    "backward.maxsim_backward_unified_reference": "grad_scores, Q, D, argmax, q_mask=None",
    "fused_head.maxsim_from_hidden": "Q, H_d, W, b=None, d_mask=None, normalize=True",
    "plaid.plaid_approx_score": "query_centroid_scores, codes, doc_lengths",
    "plaid.maxsim_residual": f"Q, codes, {CODES}",
    "plaid.maxsim_residual_varlen": "Q, codes_flat, residuals_flat, cu_seqlens_d, centroids, bucket_weights, nbits, *, "
    "max_seqlen_d=None, normalize=True",
    "fp8.maxsim_inference_fp8": f"Q, D, *, scale_Q, scale_D, {MASKS}",
    "fp8.quantize_fp8_per_tensor": "X, dtype=torch.float8_e4m3fn",
    "fp8.quantize_fp8_per_token": "X, dtype=torch.float8_e4m3fn",
    "fp8.dequantize_fp8_per_tensor": "X_fp8, scale",
    "fp8.dequantize_fp8_per_token": "X_fp8, scale",
    "mps.maxsim_mps": f"Q, D, {MASKS}, *, normalize=True",
    "mps.maxsim_inference_mps": f"Q, D, {MASKS}, *, normalize=True",
    "reference.maxsim_reference": f"Q, D, {MASKS}, *, normalize=False",
    "reference.maxsim_reference_varlen": "Q, D, cu_seqlens_q, cu_seqlens_d",
    "reference.maxsim_reference_scatter": f"{PACKED}, pair_q_idx, pair_d_idx",
    "reference.maxsim_padded_reference": LENGTHS,
    "reference.plaid_approx_score_reference": "query_centroid_scores, codes, doc_lengths",
    "reference.unpack_residuals_reference": "residuals, nbits, d",
    "reference.maxsim_residual_reference": f"Q, codes, {CODES}",
    "reference.maxsim_from_hidden_reference": "Q, H_d, W, b=None, d_mask=None, *, normalize=True",
    "pylate_compat.patch_pylate": "",
    "pylate_compat.unpatch_pylate": "",
    "colpali_compat.patch_colpali_engine": "",
    "colpali_compat.unpatch_colpali_engine": "",
}


class NamesTest(TorchTest):
    def test_signatures_are_those_of_the_package(self):
        for name, signature in SIGNATURES.items():
            module, function = name.split(".")
            made = getattr(importlib.import_module(f"{lik.__name__}.{module}"), function)
            arguments = inspect.signature(made).parameters.values()
            words = []
            for argument in arguments:
                if argument.kind is argument.KEYWORD_ONLY and "*" not in words:
                    words.append("*")
                default = "" if argument.default is argument.empty else f"={argument.default!r}"
                words.append(argument.name + default)
            self.assertEqual(", ".join(words), signature, name)

    def test_what_the_package_exports_is_there(self):
        for name in lik.__all__:
            self.assertTrue(hasattr(lik, name), name)
        self.assertEqual(lik.__version__, "0.4.5")
        with self.assertRaises(AttributeError):
            _ = lik.no_such_name


class RetrievalTest(TorchTest):
    def test_results_are_those_of_a_sort_of_all_scores(self):
        Q, D = self.values(3, 5, 8), self.values(11, 6, 8)
        q_mask, d_mask = (torch.rand(shape, generator=self.random) < 0.7 for shape in ((3, 5), (11, 6)))
        for normalize, largest, chunk in itertools.product((False, True), (False, True), (None, 1, 3, 11, 50)):
            scores = lik.maxsim(Q, D, q_mask, d_mask, normalize=normalize)
            values, indices = scores.sort(descending=largest, stable=True)
            made = lik.retrieve(
                Q, D, 4, q_mask, d_mask, normalize=normalize, chunk=chunk, largest=largest, sorted=False
            )
            torch.testing.assert_close(made[0], values[:, :4])
            self.check_same_bits(made[1:], [indices[:, :4]])

    def test_of_equal_scores_the_smallest_indices_come_first(self):
        Q, D = torch.ones(1, 2, 8), torch.ones(7, 3, 8)
        for chunk in (None, 2):
            self.assertEqual(topk.maxsim_topk(Q, D, 3, chunk_size=chunk)[1].tolist(), [[0, 1, 2]])

    def test_one_query_and_more_documents_than_there_are(self):
        Q, D = self.values(5, 8), self.values(4, 6, 8)
        scores, indices = lik.retrieve(Q, D, 9, chunk=3)
        self.assertEqual((scores.shape, sorted(indices.tolist())), ((4,), [0, 1, 2, 3]))
        self.assertEqual(lik.retrieve(Q, D[0], 1)[1].tolist(), [0])

    def test_gradients_do_not_flow(self):
        self.assertFalse(lik.retrieve(self.values(5, 8).requires_grad_(), self.values(4, 6, 8), 2)[0].requires_grad)

    def test_float64_stays_float64(self):
        Q, D = self.values(2, 5, 8).double(), self.values(4, 6, 8).double()
        scores, _ = lik.retrieve(Q, D, 4, normalize=True)
        expected = true_scores(Q, D, normalize=True).sort(descending=True).values
        torch.testing.assert_close(scores, expected, rtol=1e-12, atol=1e-12)

    def test_what_does_not_fit_is_refused(self):
        Q, D = torch.ones(2, 5, 8), torch.ones(4, 6, 8)
        self.refuse(ValueError, "top_k must be positive; it is 0", lik.retrieve, Q, D, 0)
        self.refuse(ValueError, "k must be positive; it is -1", topk.maxsim_topk, Q, D, -1)
        self.refuse(ValueError, "chunk_size must be positive", lik.retrieve, Q, D, 1, chunk=0)
        self.refuse(ValueError, "one device", lik.retrieve, Q, D.to("meta"), 1)


class ScorerTest(CompatTest):
    def test_a_scorer_is_maxsim_of_normalised_tokens(self):
        tensors = self.values(3, 5, 8), self.values(4, 6, 8)
        masks = self.mask(3, 5), self.mask(4, 6)
        scorer = lik.MaxSimScorer()
        self.check(lambda Q, D: scorer(Q, D, *masks), lambda Q, D: true_scores(Q, D, *masks, normalize=True), tensors)
        Q = tensors[0].clone().requires_grad_()
        self.assertFalse(scorer.score(Q, tensors[1], *masks).requires_grad)
        self.check_same_bits(scorer.retrieve(*tensors, 2, chunk=3), lik.retrieve(*tensors, 2))
        self.assertEqual(list(scorer.parameters()), [])

    def test_masks_come_from_ids(self):
        Q, D = self.values(1, 3, 8), self.values(1, 4, 8)
        q_ids, d_ids = torch.tensor([[5, 6, 0]]), torch.tensor([[0, 7, 8, 0]])
        scorer = lik.MaxSimScorer(normalize=False, mask_pad_token=0)
        expected = true_pair(Q[0, :2], D[0, 1:3])
        self.assertAlmostEqual(float(scorer.forward_with_ids(Q, D, q_ids, d_ids)), float(expected), places=4)
        self.refuse(ValueError, "mask_pad_token is None", lik.MaxSimScorer().forward_with_ids, Q, D, q_ids, d_ids)

    def test_float64_has_gradients_in_float64(self):
        Q, D = (self.values(2, count, 6).double().requires_grad_() for count in (4, 5))
        self.assertTrue(torch.autograd.gradcheck(lik.MaxSimScorer(), (Q, D)))

    def test_settings_are_checked_and_shown(self):
        self.refuse(ValueError, "backward is 'fast'", lik.MaxSimScorer, backward="fast")
        self.assertIn(
            "backward='lowmem', mask_pad_token=3", repr(lik.MaxSimScorer(backward="lowmem", mask_pad_token=3))
        )
        self.refuse(ValueError, "one device", lik.MaxSimScorer(), torch.ones(2, 8), torch.ones(2, 8, device="meta"))


class ReferenceTest(TorchTest):
    def test_plain_scores_are_those_of_the_definition(self):
        Q, D = self.values(2, 5, 8).double(), self.values(3, 6, 8).double()
        q_mask, d_mask = (torch.rand(shape, generator=self.random) < 0.5 for shape in ((2, 5), (3, 6)))
        d_mask[1] = False
        for normalize in (False, True):
            made = reference.maxsim_reference(Q, D, q_mask, d_mask, normalize=normalize)
            torch.testing.assert_close(made, true_scores(Q, D, q_mask, d_mask, normalize))
        self.assertEqual(reference.maxsim_reference(Q[0].half(), D[0].half()).dtype, torch.float32)
        self.assertEqual(reference.maxsim_reference(Q[0], D[0]).shape, ())
        self.refuse(ValueError, "embedding dims", reference.maxsim_reference, Q, D[..., :4])

    def test_the_other_layouts_are_pairs(self):
        Q, D = self.values(7, 8), self.values(9, 8)
        cu_q, cu_d = torch.tensor([0, 4, 4, 7]), torch.tensor([0, 5, 5, 9])
        made = reference.maxsim_reference_varlen(Q, D, cu_q, cu_d)
        for i, j in itertools.product(range(3), range(3)):
            expected = true_pair(Q[cu_q[i] : cu_q[i + 1]], D[cu_d[j] : cu_d[j + 1]])
            self.assertAlmostEqual(float(made[i, j]), float(expected), places=4)
        pair_q, pair_d = torch.tensor([2, 0]), torch.tensor([0, 2])
        pairs = reference.maxsim_reference_scatter(Q, D, cu_q, cu_d, pair_q, pair_d)
        torch.testing.assert_close(pairs, made[pair_q, pair_d])
        documents = D[:6].reshape(1, 2, 3, 8)
        padded = reference.maxsim_padded_reference(Q[None], documents, torch.tensor([4]), torch.tensor([[3, 0]]))
        self.assertAlmostEqual(float(padded[0, 0]), float(true_pair(Q[:4], D[:3])), places=4)
        self.assertEqual(float(padded[0, 1]), 0)

    def test_apples_names_are_maxsim(self):
        Q, D = self.values(2, 5, 8).requires_grad_(), self.values(3, 6, 8)
        made = mps.maxsim_mps(Q, D)
        self.check_same_bits([made], [lik.maxsim(Q, D, normalize=True)])
        self.check_same_bits([mps.maxsim_inference_mps(Q, D)], [made])
        self.assertTrue(made.requires_grad)
        self.assertFalse(mps.maxsim_inference_mps(Q, D).requires_grad)


class HeadTest(CompatTest):
    def test_a_head_before_the_scores_is_the_head_and_the_scores(self):
        tensors = self.values(2, 5, 16), self.values(3, 7, 24), self.values(16, 24), self.values(16)
        d_mask = self.mask(3, 7)
        d_mask[1] = False

        def true(Q, H, W, b, normalize):
            D = H @ W.T + b
            return true_scores(Q, D / D.norm(dim=-1, keepdim=True) if normalize else D, None, d_mask)

        for device, normalize in itertools.product(DEVICES, (False, True)):
            mask = d_mask.to(device)
            self.check(
                lambda *given, mask=mask, normalize=normalize: fused_head.maxsim_from_hidden(*given, mask, normalize),
                lambda *given, normalize=normalize: true(*given, normalize),
                tensors,
                device=device,
            )
        made = fused_head.maxsim_from_hidden(tensors[0][0], *tensors[1:3])
        torch.testing.assert_close(made, reference.maxsim_from_hidden_reference(tensors[0][0], *tensors[1:3]))
        self.assertEqual(made.shape, (3,))

    def test_what_does_not_fit_is_refused(self):
        Q, H, W, b = torch.ones(2, 5, 16), torch.ones(3, 7, 24), torch.ones(16, 24), torch.ones(16)
        self.refuse(ValueError, "Q must be", fused_head.maxsim_from_hidden, Q[None], H, W)
        self.refuse(ValueError, "H_d must be", fused_head.maxsim_from_hidden, Q, H[0], W)
        self.refuse(ValueError, "W must be", fused_head.maxsim_from_hidden, Q, H, W.T)
        self.refuse(ValueError, "b must be", fused_head.maxsim_from_hidden, Q, H, W, b[:3])
        self.refuse(ValueError, "one device", fused_head.maxsim_from_hidden, Q, H.to("meta"), W)


class PlaidTest(CompatTest):
    """Uses an index with 5 centroids and 3 documents of 7, 0 and 4 tokens."""

    def index(self, dim, nbits):
        packed_dim = (dim * nbits + 7) // 8
        codes = torch.randint(0, 5, (3, 7), generator=self.random)
        residuals = torch.randint(0, 256, (3, 7, packed_dim), generator=self.random).to(torch.uint8)
        return codes, residuals, torch.tensor([7, 0, 4]), self.values(5, dim), self.values(1 << nbits) / 8

    def true_documents(self, dim, nbits, codes, residuals, centroids, weights):
        """Returns the decoded vectors. The first column of a byte is in its lowest bits."""
        columns = []
        for column in range(dim):
            first = column * nbits
            bucket = residuals[..., first // 8].long() // (1 << first % 8) % (1 << nbits)
            columns.append(weights[bucket])
        return centroids[codes] + torch.stack(columns, -1)

    def test_padded_and_packed_scores_are_those_of_decoded_vectors(self):
        for dim, nbits, normalize, device in itertools.product((16, 15), (2, 4, 8), (False, True), DEVICES):
            codes, residuals, lengths, centroids, weights = self.index(dim, nbits)
            documents = self.true_documents(dim, nbits, codes, residuals, centroids, weights)
            Q = self.values(2, 5, dim)
            there = torch.arange(7) < lengths[:, None]
            expected = true_scores(Q, documents, None, there, normalize)
            table = (centroids.to(device), weights.to(device), nbits)
            index = (codes.to(device), residuals.to(device), lengths.to(device))
            with self.subTest(dim=dim, nbits=nbits, normalize=normalize, device=device):
                made = plaid.maxsim_residual(Q.to(device), *index, *table, normalize=normalize)
                torch.testing.assert_close(made.cpu().double(), expected, rtol=1e-4, atol=1e-4)
                plain = plaid.maxsim_residual_reference(
                    Q, codes, residuals, lengths, centroids, weights, nbits, normalize=normalize
                )
                torch.testing.assert_close(plain.double(), expected, rtol=1e-4, atol=1e-4)
                flat = (codes[there].to(device), residuals[there].to(device), torch.tensor([0, 7, 7, 11]).to(device))
                for bound in (None, 7):
                    more = {"max_seqlen_d": bound, "normalize": normalize}
                    packed = plaid.maxsim_residual_varlen(Q.to(device), *flat, *table, **more)
                    torch.testing.assert_close(packed, made)
                self.assertEqual(plaid.maxsim_residual_varlen(Q[0].to(device), *flat, *table).shape, (3,))

    def test_queries_have_gradients(self):
        for dim, normalize in itertools.product((16, 15), (False, True)):
            codes, residuals, _, centroids, weights = self.index(dim, 2)
            lengths = torch.tensor([7, 1, 4])
            documents = self.true_documents(dim, 2, codes, residuals, centroids, weights).double()
            there = torch.arange(7) < lengths[:, None]
            self.check(
                lambda Q, index=(codes, residuals, lengths, centroids, weights, 2), normalize=normalize: (
                    plaid.maxsim_residual(Q, *index, normalize=normalize)
                ),
                lambda Q, D=documents, mask=there, normalize=normalize: true_scores(Q, D, None, mask, normalize),
                (self.values(2, 5, dim),),
            )

    def test_an_empty_document_is_refused_where_queries_want_gradients(self):
        index = self.index(16, 2)
        Q = self.values(2, 5, 16).requires_grad_()
        self.refuse(ValueError, "zero-length document", plaid.maxsim_residual, Q, *index, 2)
        self.assertEqual(plaid.maxsim_residual(Q.detach(), *index, 2)[:, 1].tolist(), [0.0, 0.0])

    def test_approximate_scores_are_sums_of_the_best_centroids(self):
        table = self.values(5, 4)
        codes = torch.tensor([[0, 3, 4], [2, -1, 99], [1, 1, 1]])
        lengths = torch.tensor([2, 3, 0])
        for device in DEVICES:
            made = plaid.plaid_approx_score(table.to(device), codes.to(device), lengths.to(device)).cpu()
            expected = [torch.maximum(table[0], table[3]).sum(), torch.maximum(table[2], table[0]).sum(), 0.0]
            torch.testing.assert_close(made, torch.tensor(expected))
        plain = plaid.plaid_approx_score_reference(table, codes.clamp(0, 4), lengths)
        torch.testing.assert_close(plain[[0, 2]], torch.tensor([expected[0], expected[2]]))

    def test_what_does_not_fit_is_refused(self):
        codes, residuals, lengths, centroids, weights = self.index(16, 2)
        Q, rest = self.values(2, 5, 16), (lengths, centroids, weights)
        self.refuse(
            ValueError, "nbits must be 2, 4 or 8; it is 3", plaid.maxsim_residual, Q, codes, residuals, *rest, 3
        )
        self.refuse(ValueError, "residuals is 4; .* it must be 8", plaid.maxsim_residual, Q, codes, residuals, *rest, 4)
        self.refuse(ValueError, "codes must be", plaid.maxsim_residual, Q, codes[0], residuals, *rest, 2)
        self.refuse(ValueError, "residuals must be", plaid.maxsim_residual, Q, codes, residuals[0], *rest, 2)
        short = (lengths, centroids, weights[:3])
        self.refuse(ValueError, "3 bucket_weights", plaid.maxsim_residual, Q, codes, residuals, *short, 2)
        offsets = torch.tensor([0, 7])
        flat = (codes[0], residuals[0], offsets, centroids, weights, 2)
        self.refuse(RuntimeError, "max_seqlen_d=6", plaid.maxsim_residual_varlen, Q, *flat, max_seqlen_d=6)
        self.refuse(ValueError, "codes_flat must be 1-D", plaid.maxsim_residual_varlen, Q, codes, *flat[1:])
        self.refuse(ValueError, "doc_lengths must be", plaid.plaid_approx_score, self.values(5, 4), codes, lengths[:1])
        self.refuse(ValueError, "codes must be", plaid.plaid_approx_score, self.values(5, 4), codes[0], lengths)


class Float8Test(TorchTest):
    def test_values_come_back_to_an_eighth_or_a_sixteenth(self):
        X = self.values(3, 5, 16)
        for quantize, dequantize, shape in (
            (fp8.quantize_fp8_per_tensor, fp8.dequantize_fp8_per_tensor, ()),
            (fp8.quantize_fp8_per_token, fp8.dequantize_fp8_per_token, (3, 5)),
        ):
            values, scale = quantize(X)
            self.assertEqual((values.dtype, scale.shape), (torch.float8_e4m3fn, shape))
            torch.testing.assert_close(dequantize(values, scale), X, rtol=2**-4, atol=2**-9 * float(X.abs().max()))
        values, scale = fp8.quantize_fp8_per_tensor(X[:0])
        self.assertEqual((values.shape, float(scale)), ((0, 5, 16), 1.0))

    def test_scores_are_those_of_the_values(self):
        Q, D = self.values(2, 5, 16), self.values(3, 7, 16)
        q_mask, d_mask = (torch.rand(shape, generator=self.random) < 0.7 for shape in ((2, 5), (3, 7)))
        d_mask[1] = False
        ways = (fp8.quantize_fp8_per_tensor, fp8.quantize_fp8_per_token)
        for of_queries, of_documents, device in itertools.product(ways, ways, DEVICES):
            (q, scale_q), (d, scale_d) = of_queries(Q), of_documents(D)
            expected = true_scores(
                q.float() * scale_q[..., None] if scale_q.dim() else q.float() * scale_q,
                d.float() * scale_d[..., None] if scale_d.dim() else d.float() * scale_d,
                q_mask,
                d_mask,
            )
            made = fp8.maxsim_inference_fp8(
                q.to(device),
                d.to(device),
                scale_Q=scale_q.to(device),
                scale_D=scale_d.to(device),
                q_mask=q_mask.to(device),
                d_mask=d_mask.to(device),
            )
            torch.testing.assert_close(made.cpu().double(), expected, rtol=1e-3, atol=1e-3)
            one = fp8.maxsim_inference_fp8(
                q[0],
                d[0],
                scale_Q=scale_q[0] if scale_q.dim() else scale_q,
                scale_D=scale_d[0] if scale_d.dim() else scale_d,
                q_mask=q_mask[0],
                d_mask=d_mask[0],
            )
            self.assertAlmostEqual(float(one), float(expected[0, 0]), places=2)
        unit = torch.ones(())
        scales = {"scale_Q": unit, "scale_D": unit}
        self.refuse(ValueError, "16 columns and D 8", fp8.maxsim_inference_fp8, q, d[..., :8], **scales)


if __name__ == "__main__":
    run_tests()
