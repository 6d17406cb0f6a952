"""Tests that maxsim_torch.patch_colpali_engine does not change losses, gradients and scores of colpali-engine.

python colpali_patch_test.py LIBMAXSIM.so        with torch and colpali-engine installed
"""

import inspect
import itertools
import os
import warnings
from unittest import mock

import torch
from torch_fixture import DEVICES, TorchTest, run_tests

from colpali_engine.loss import late_interaction_losses as losses  # noqa: E402
from colpali_engine.utils import processing_utils  # noqa: E402

import maxsim_torch  # noqa: E402
from maxsim_torch import colpali_patch, patch_colpali_engine, unpatch_colpali_engine  # noqa: E402
from maxsim_torch.compat.late_interaction_kernels import colpali_compat  # noqa: E402

PROCESSOR = processing_utils.BaseVisualRetrieverProcessor
EINSUM = torch.einsum


class PatchTest(TorchTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(unpatch_colpali_engine)
        self.addCleanup(colpali_compat.unpatch_colpali_engine)

    def counted(self):
        """Makes the patch's maxsim_scores count its calls."""
        counted = mock.patch.object(colpali_patch, "maxsim_scores", wraps=maxsim_torch.maxsim_scores)
        self.addCleanup(counted.stop)
        return counted.start()

    def unit(self, *shape):
        return torch.nn.functional.normalize(self.values(*shape), dim=-1)

    def tensors(self, name):
        queries, documents, negatives = self.unit(4, 5, 16), self.unit(4, 7, 16), self.unit(4, 3, 6, 16)
        queries[1, 3:] = 0  # padding
        documents[2, 5:] = 0
        return (queries, documents, negatives) if "Negative" in name else (queries, documents)

    def outcome(self, loss, tensors, device):
        """Returns a loss and the gradients of the tensors. Multiplies padding by 0, as models do, so that its gradient
        is 0."""
        given = [tensor.detach().to(device, copy=True).requires_grad_() for tensor in tensors]
        value = loss.to(device)(*(tensor * (tensor != 0) for tensor in given))
        value.backward()
        return [value.detach(), *(tensor.grad for tensor in given)]


class LossesTest(PatchTest):
    def check(self, name, patch, unpatch, counts, **settings):
        loss, tensors = getattr(losses, name)(**settings), self.tensors(name)
        for device in DEVICES:
            expected = self.outcome(loss, tensors, device)
            calls = self.counted()
            patch()
            made = self.outcome(loss, tensors, device)
            unpatch()
            self.assertEqual(calls.call_count, counts)
            for one, other in zip(made, expected):
                torch.testing.assert_close(one, other, rtol=2e-4, atol=2e-5)

    def test_losses_and_their_gradients_are_the_same_with_every_setting(self):
        for name, normalize, filtering in itertools.product(colpali_patch.LOSSES, (False, True), (False, True)):
            settings = {"normalize_scores": normalize, "pos_aware_negative_filtering": filtering, "temperature": 0.5}
            with self.subTest(name=name, **settings):
                counts = 3 if "Negative" in name else 1
                self.check(name, patch_colpali_engine, unpatch_colpali_engine, counts, **settings)

    def test_smooth_maxima_are_left_alone(self):
        for name in colpali_patch.LOSSES:
            self.check(name, patch_colpali_engine, unpatch_colpali_engine, 0, use_smooth_max=True, temperature=0.5)

    def test_the_drop_in_replaces_einsum_alone_where_it_computes(self):
        with mock.patch.object(colpali_compat, "package_at_least", lambda *_: False):
            for name in colpali_patch.LOSSES:
                taken = 0 if DEVICES == ("cpu",) else None
                if taken is not None:
                    self.check(name, colpali_compat.patch_colpali_engine, colpali_compat.unpatch_colpali_engine, taken)
                with mock.patch.object(colpali_compat, "device_path", lambda *_: "cuda"):
                    counts = 3 if "Negative" in name else 1
                    self.check(
                        name,
                        colpali_compat.patch_colpali_engine,
                        colpali_compat.unpatch_colpali_engine,
                        counts,
                        temperature=0.5,
                    )

    def test_another_backend_and_other_types_are_colpali_engines_own(self):
        loss, tensors = losses.ColbertLoss(), self.tensors("ColbertLoss")
        calls = self.counted()
        patch_colpali_engine()
        with mock.patch.dict(os.environ, {"COLPALI_SCORES_BACKEND": "torch"}):
            loss(*tensors)
        loss(*(tensor.double() for tensor in tensors))
        self.assertEqual(calls.call_count, 0)
        loss(*tensors)
        self.assertEqual(calls.call_count, 1)


class ScoresTest(PatchTest):
    def test_scores_of_pages_of_any_lengths_are_the_same(self):
        queries = [self.unit(count, 16) for count in (5, 3, 8)]
        pages = [self.unit(count, 16) for count in (9, 12, 4, 7)]
        for device in DEVICES:
            expected = PROCESSOR.score_multi_vector(queries, pages, batch_size=2, device=device)
            calls = self.counted()
            patch_colpali_engine()
            made = PROCESSOR.score_multi_vector(queries, pages, batch_size=2, device=device)
            self.assertEqual((calls.call_count, made.dtype, made.device.type), (4, torch.float32, "cpu"))
            torch.testing.assert_close(made, expected)
            with self.assertRaisesRegex(ValueError, "No queries"):
                PROCESSOR.score_multi_vector([], pages, device=device)
            unpatch_colpali_engine()

    def test_every_layout_of_einsum_has_its_scores(self):
        Q = self.values(2, 5, 8)
        cases = {
            "bnd,csd->bcns": self.values(3, 6, 8),
            "bnd,bsd->bns": self.values(2, 6, 8),
            "bnd, blsd -> blns": self.values(2, 3, 6, 8),
        }
        for equation, D in cases.items():
            similarities = EINSUM(equation, Q, D)
            with colpali_patch._Scoring(lambda *_: True):
                lazy = torch.einsum(equation, Q, D)
                self.assertNotIsInstance(lazy, torch.Tensor)
                best = lazy.amax(dim=-1), lazy.max(dim=similarities.dim() - 1)[0]
                for one in best:
                    torch.testing.assert_close(one.sum(dim=-1), similarities.amax(-1).sum(-1))
                    torch.testing.assert_close(one.sum(dim=0), similarities.amax(-1).sum(0))
                    torch.testing.assert_close(one.mean(), similarities.amax(-1).mean())
                torch.testing.assert_close(lazy.amax(dim=0), similarities.amax(0))
                torch.testing.assert_close(lazy.max(dim=1)[0], similarities.max(1)[0])
                torch.testing.assert_close(lazy / 2, similarities / 2)
                self.assertEqual(lazy.shape, similarities.shape)

    def test_other_equations_are_computed(self):
        Q, D = self.values(2, 5, 8), self.values(2, 5, 8)
        with colpali_patch._Scoring(lambda *_: True):
            for equation in ("bnd,bnd->bn", "bnd,csd->bcsn", "bnd,csd->bns", "bnd,csd->", "bnd,bsd->bsn"):
                torch.testing.assert_close(torch.einsum(equation, Q, D), EINSUM(equation, Q, D))
            product = torch.einsum("bd,cd->bc", Q[0], D[0])
            self.assertIsInstance(product, torch.Tensor)
        self.assertIsInstance(torch.einsum("bnd,csd->bcns", Q, D), torch.Tensor)


class RestoringTest(PatchTest):
    def holders(self):
        forwards = [getattr(losses, name).forward for name in colpali_patch.LOSSES]
        functions = [losses.maxsim_inbatch, losses.maxsim_kd, processing_utils.maxsim_inbatch]
        return [*forwards, *functions, PROCESSOR.score_multi_vector]

    def test_everything_is_replaced_and_given_back(self):
        before = self.holders()
        patch_colpali_engine()
        patch_colpali_engine()
        self.assertTrue(all(one is not other for one, other in zip(self.holders(), before)))
        unpatch_colpali_engine()
        unpatch_colpali_engine()
        self.assertTrue(all(one is other for one, other in zip(self.holders(), before)))
        self.assertIsInstance(inspect.getattr_static(PROCESSOR, "score_multi_vector"), staticmethod)

    def test_the_drop_in_leaves_later_releases_alone_and_says_so_once(self):
        before = self.holders()
        with (
            mock.patch.object(colpali_compat, "_NATIVE_NOTICE_SHOWN", False),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            colpali_compat.patch_colpali_engine()
            colpali_compat.patch_colpali_engine()
        self.assertEqual(sum(warning.category is DeprecationWarning for warning in caught), 1)
        self.assertTrue(all(one is other for one, other in zip(self.holders(), before)))


if __name__ == "__main__":
    run_tests()
