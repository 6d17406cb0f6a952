"""Tests numeric masks, in the forms of tokenizers and attention layers, in
maxsim_torch.compat.late_interaction_kernels.

python late_interaction_kernels_masks_test.py LIBMAXSIM.so        with torch installed
"""

import itertools
import sys
import types
from unittest import mock

import torch
from late_interaction_kernels_case import CompatTest, true_scores
from torch_fixture import DEVICES, run_tests

from maxsim_torch.compat.late_interaction_kernels import pylate_compat
from maxsim_torch.compat.late_interaction_kernels.backward import _gradients, unified
from maxsim_torch.compat.late_interaction_kernels.reference import maxsim_reference
from maxsim_torch.compat.late_interaction_kernels.retrieve import MaxSimScorer
from maxsim_torch.compat.late_interaction_kernels.topk import maxsim_topk


class MaskTest(CompatTest):
    def setUp(self):
        super().setUp()
        # Replaces PyLate's function that converts tensors, because the environment "adapters" has no PyLate.
        tensors = types.SimpleNamespace(convert_to_tensor=lambda value: value)
        modules = {"pylate": types.SimpleNamespace(), "pylate.utils": types.SimpleNamespace()}
        self.enterContext(mock.patch.dict(sys.modules, {**modules, "pylate.utils.tensor": tensors}))
        self.enterContext(mock.patch.object(pylate_compat, "device_path", lambda q, d: "cuda"))
        self.Q, self.D = self.values(2, 4, 16), self.values(3, 6, 16)
        self.q_mask, self.d_mask = self.mask(2, 4), self.mask(3, 6)
        self.d_mask[:, -1] = False

    def test_masks_of_zeros_and_ones_are_those_of_booleans(self):
        expected = pylate_compat.patched_colbert_scores(self.Q, self.D, self.q_mask, self.d_mask)
        torch.testing.assert_close(expected.double(), true_scores(self.Q, self.D, self.q_mask, self.d_mask))
        for dtype, device in itertools.product((torch.int64, torch.uint8, torch.float32), DEVICES):
            moved = [value.to(device) for value in (self.Q, self.D)]
            masks = [mask.to(device, dtype) for mask in (self.q_mask, self.d_mask)]
            scores = pylate_compat.patched_colbert_scores(*moved, *masks)
            torch.testing.assert_close(scores.cpu(), expected)

    def test_an_additive_mask_never_selects_the_padding(self):
        for hidden, device in itertools.product((float("-inf"), -1e4), DEVICES):
            additive = torch.where(self.d_mask, 0.0, hidden).to(device)
            Q, D = self.Q.to(device), self.D.to(device)
            if device == "cpu":
                message = "must be booleans, or 0 and 1"
                self.refuse(ValueError, message, pylate_compat.patched_colbert_scores, Q, D, None, additive)
            else:
                scores = pylate_compat.patched_colbert_scores(Q, D, None, additive)
                self.assertEqual(scores.tolist(), [[0.0] * 3] * 2, "there are no tokens")

    def test_the_reference_refuses_an_additive_mask_too(self):
        Q, D = self.Q.double(), self.D.double()
        expected = true_scores(Q, D, self.q_mask, self.d_mask)
        functions = {
            "maxsim_reference": maxsim_reference,
            "maxsim_topk": lambda *given: maxsim_topk(*given[:2], 3, *given[2:])[0],
            "MaxSimScorer": lambda *given: MaxSimScorer(normalize=False)(*given),
        }
        for name, function in functions.items():
            with self.subTest(name):
                scores = function(Q, D, self.q_mask.float(), self.d_mask.long())
                exact = expected if name != "maxsim_topk" else expected.sort(-1, descending=True).values
                torch.testing.assert_close(scores.double(), exact)
                for mask, which in ((self.q_mask, "q_mask"), (self.d_mask, "d_mask")):
                    additive = {"q_mask": None, "d_mask": None, which: torch.where(mask, 0.0, float("-inf"))}
                    self.refuse(ValueError, f"{which} has the value -inf at", function, Q, D, *additive.values())

    def test_gradients_refuse_an_additive_mask_too(self):
        argmax = torch.zeros(6, 4, dtype=torch.int32)
        self.q_mask[1, 3] = False
        additive = torch.where(self.q_mask, 0.0, float("-inf"))
        arguments = (self.values(2, 3), self.Q, self.D, argmax)
        number = self.q_mask.float()
        message = "q_mask has the value -inf at"
        for function in (
            unified.maxsim_backward_unified_reference,
            lambda *given: _gradients.gradients(*given, kd_layout=False),
        ):
            self.check_same_bits(function(*arguments, number), function(*arguments, self.q_mask))
            self.refuse(ValueError, message, function, *arguments, additive)


if __name__ == "__main__":
    run_tests()
