"""Tests that maxsim_torch.patch_pylate does not change scores, losses, gradients and reranking of PyLate.

python pylate_patch_test.py LIBMAXSIM.so        with torch and pylate installed
"""

import os
import warnings
from unittest import mock

import torch
from torch_fixture import DEVICES, TorchTest, run_tests

os.environ["HF_HUB_OFFLINE"] = "1"

from pylate import losses, rank, scores  # noqa: E402

import maxsim_torch  # noqa: E402
from maxsim_torch import patch_pylate, pylate_patch, unpatch_pylate  # noqa: E402
from maxsim_torch.compat.late_interaction_kernels import pylate_compat  # noqa: E402

NAMES = ("colbert_scores", "colbert_kd_scores", "colbert_scores_pairwise")
SKIPPED = 3


class Model(torch.nn.Module):
    """A fake model with the methods that PyLate's losses call. The vector of a token is a row of a table."""

    skiplist = (SKIPPED,)
    do_query_expansion = False

    def __init__(self, values):
        super().__init__()
        self.table = torch.nn.Parameter(values)

    def forward(self, features):
        return {"token_embeddings": self.table[features["input_ids"]]}


class PatchTest(TorchTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(unpatch_pylate)
        self.addCleanup(pylate_compat.unpatch_pylate)

    def mask(self, *shape, dtype=torch.bool):
        mask = torch.rand(shape, generator=self.random) < 0.6
        mask[..., 0] = True
        return mask.to(dtype)

    def counted(self):
        """Makes the patch's maxsim_scores count its calls."""
        counted = mock.patch.object(pylate_patch, "maxsim_scores", wraps=maxsim_torch.maxsim_scores)
        self.addCleanup(counted.stop)
        return counted.start()

    def outcome(self, function, tensors, device):
        """Calls a function of tensors. Returns its result, and the gradients of a weighted sum of all values of the
        result."""
        given = [tensor.detach().to(device, copy=True).requires_grad_() for tensor in tensors]
        result = function(*given)
        mixture = torch.linspace(-1, 2, result.numel(), device=device).reshape(result.shape)
        (result.float() * mixture).sum().backward()
        return [result.detach(), *(tensor.grad for tensor in given)]

    def check_same(self, function, tensors):
        for device in DEVICES:
            unpatch_pylate()
            expected = self.outcome(function, tensors, device)
            patch_pylate()
            for one, other in zip(self.outcome(function, tensors, device), expected):
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


class ScoresTest(PatchTest):
    def test_scores_and_gradients_are_pylates_with_every_mask(self):
        calls = self.counted()
        for dtype in (torch.bool, torch.float32, torch.int64):
            q_mask, d_mask = self.mask(3, 5, dtype=dtype), self.mask(4, 6, dtype=dtype)
            for masks in ((None, None), (q_mask, None), (None, d_mask), (q_mask, d_mask)):
                self.check_same(
                    lambda Q, D, masks=masks: scores.colbert_scores(
                        Q, D, *(None if mask is None else mask.to(Q.device) for mask in masks)
                    ),
                    (self.values(3, 5, 16), self.values(4, 6, 16)),
                )
        self.assertEqual(calls.call_count, 12 * len(DEVICES))

    def test_a_token_that_is_left_out_has_the_similarity_0(self):
        # All similarities are negative. PyLate gives the masked token the similarity 0, which is then the largest.
        Q, D = torch.ones(1, 2, 8), -torch.ones(1, 3, 8)
        d_mask = torch.tensor([[True, True, False]])
        calls = self.counted()
        patch_pylate()
        self.assertEqual(scores.colbert_scores(Q, D, documents_mask=d_mask).tolist(), [[0.0]])
        self.assertEqual(scores.colbert_scores(Q, D).tolist(), [[-16.0]])
        self.assertEqual(calls.call_count, 2)

    def test_lists_of_documents_and_weights_as_masks_are_pylates(self):
        calls = self.counted()
        q_mask, d_mask = torch.rand(2, 5, generator=self.random), self.mask(2, 3, 6)
        self.check_same(
            lambda Q, D: scores.colbert_kd_scores(Q, D, q_mask.to(Q.device), d_mask.to(Q.device)),
            (self.values(2, 5, 16), self.values(2, 3, 6, 16)),
        )
        self.assertEqual(calls.call_count, len(DEVICES))

    def test_pairs_are_pylates_and_may_be_of_any_lengths(self):
        packed = mock.patch.object(pylate_patch, "maxsim_scores_packed", wraps=maxsim_torch.maxsim_scores_packed)
        with packed as calls:
            self.check_same(
                lambda Q, D: scores.colbert_scores_pairwise(Q, D), (self.values(3, 5, 16), self.values(3, 6, 16))
            )
            self.check_same(
                lambda a, b, c, d: scores.colbert_scores_pairwise([a, b], [c, d]),
                (self.values(5, 8), self.values(2, 8), self.values(3, 8), self.values(7, 8)),
            )
            self.assertEqual(calls.call_count, 2 * len(DEVICES))

    def test_numpy_arrays_and_lists_are_taken(self):
        patch_pylate()
        Q, D = self.values(2, 5, 8), self.values(3, 6, 8)
        expected = maxsim_torch.maxsim_scores(Q, D)
        self.check_same_bits([scores.colbert_scores(Q.numpy(), D.numpy())], [expected])
        self.check_same_bits([scores.colbert_scores(list(Q), list(D))], [expected])

    def test_autocast_has_the_type_that_einsum_would_have(self):
        Q, D = self.values(2, 5, 8), self.values(3, 6, 8)
        patch_pylate()
        with torch.autocast("cpu", torch.bfloat16):
            made = scores.colbert_scores(Q, D)
        self.check_same_bits([made], [maxsim_torch.maxsim_scores(Q.bfloat16(), D.bfloat16())])

    def test_what_the_operators_do_not_take_is_pylates_own(self):
        Q, D = self.values(2, 5, 8).double(), self.values(3, 6, 8).double()
        expected = scores.colbert_scores(Q, D)
        calls = self.counted()
        patch_pylate()
        self.check_same_bits([scores.colbert_scores(Q, D)], [expected])
        scores.colbert_scores(Q.float(), D.float(), backend="torch")
        with mock.patch.dict(os.environ, {"PYLATE_SCORES_BACKEND": "torch"}):
            scores.colbert_scores(Q.float(), D.float())
        self.assertEqual(calls.call_count, 0)


class LossesTest(PatchTest):
    def features(self, count, tokens):
        ids = torch.randint(0, 20, (count, tokens), generator=self.random)
        ids[:, 0] = 0
        attention = (torch.arange(tokens) < torch.randint(2, tokens + 1, (count, 1), generator=self.random)).long()
        return {"input_ids": ids, "attention_mask": attention}

    def check_loss(self, make, *arguments):
        table = self.values(20, 16)
        outcomes = []
        for patched in (False, True):
            (patch_pylate if patched else unpatch_pylate)()
            model = Model(table.clone())
            calls = self.counted()
            loss = make(model)(*arguments)
            loss.backward()
            self.assertEqual(calls.call_count > 0, patched)
            outcomes.append((loss.detach(), model.table.grad))
        for one, other in zip(*outcomes):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)

    def test_contrastive_losses_and_their_gradients_are_the_same(self):
        features = [self.features(4, 5), self.features(4, 7), self.features(4, 7)]
        self.check_loss(losses.Contrastive, features)
        self.check_loss(lambda model: losses.CachedContrastive(model, mini_batch_size=2), features)

    def test_distillation_and_its_gradients_are_the_same(self):
        # Its score_metric is a default of an argument.
        self.check_loss(losses.Distillation, [self.features(2, 5), self.features(6, 7)], self.values(2, 3))

    def test_reranking_is_the_same(self):
        documents = [[self.values(count, 8) for count in (3, 9, 5)], [self.values(4, 8)]]
        arguments = {
            "documents_ids": [["a", "b", "c"], ["d"]],
            "queries_embeddings": [self.values(5, 8), self.values(2, 8)],
        }
        expected = rank.rerank(documents_embeddings=documents, **arguments)
        calls = self.counted()
        patch_pylate()
        made = rank.rerank(documents_embeddings=documents, **arguments)
        self.assertEqual(calls.call_count, 2)
        for one, other in zip(made, expected):
            self.assertEqual([result["id"] for result in one], [result["id"] for result in other])
            for result, true in zip(one, other):
                self.assertAlmostEqual(result["score"], true["score"], places=4)


class RestoringTest(PatchTest):
    def holders(self):
        module = pylate_patch.defining_module()
        held = [getattr(owner, name) for owner in (scores, module) for name in NAMES]
        return [*held, rank.rank.colbert_scores, losses.Distillation.__init__.__defaults__[0]]

    def test_everything_is_replaced_and_given_back(self):
        before = self.holders()
        patch_pylate()
        patch_pylate()
        self.assertTrue(all(one is not other for one, other in zip(self.holders(), before)))
        unpatch_pylate()
        unpatch_pylate()
        self.assertTrue(all(one is other for one, other in zip(self.holders(), before)))

    def test_the_drop_in_leaves_later_releases_alone_and_says_so_once(self):
        before = self.holders()
        for later, expected in ((True, 1), (False, 0)):
            with (
                mock.patch.object(pylate_compat, "package_at_least", lambda *_, later=later: later),
                mock.patch.object(pylate_compat, "_NATIVE_NOTICE_SHOWN", False),
                warnings.catch_warnings(record=True) as caught,
            ):
                warnings.simplefilter("always")
                pylate_compat.patch_pylate()
                pylate_compat.patch_pylate()
            self.assertEqual(sum(warning.category is DeprecationWarning for warning in caught), expected)
            self.assertEqual(all(one is other for one, other in zip(self.holders(), before)), later)
            pylate_compat.unpatch_pylate()
            self.assertTrue(all(one is other for one, other in zip(self.holders(), before)))

    def test_the_drop_in_computes_on_gpus_alone(self):
        Q, D, d_mask = self.values(2, 5, 8), self.values(3, 6, 8), self.mask(3, 6)
        expected = scores.colbert_scores(Q, D, documents_mask=d_mask)
        pairs = scores.colbert_scores_pairwise(list(Q), [D[0], D[1, :3]])
        with mock.patch.object(pylate_compat, "package_at_least", lambda *_: False):
            pylate_compat.patch_pylate()
        for masks in ({"documents_mask": d_mask}, {"mask": d_mask}):
            self.check_same_bits([scores.colbert_scores(Q, D, **masks)], [expected])
        self.check_same_bits([scores.colbert_scores_pairwise(list(Q), [D[0], D[1, :3]])], [pairs])
        if "cuda" in DEVICES:
            made = scores.colbert_scores(Q.cuda(), D.cuda(), documents_mask=d_mask.cuda())
            torch.testing.assert_close(
                made, maxsim_torch.maxsim_scores(Q.cuda(), D.cuda(), document_mask=d_mask.cuda())
            )


if __name__ == "__main__":
    run_tests()
