"""Shared by the tests of maxsim_torch.compat.flash_maxsim. A program that imports it must get LIBMAXSIM.so as an
argument."""

import importlib
import itertools
import os
import pathlib
import sys
import unittest

os.environ["MAXSIM_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "client" / "torch"))

import torch  # noqa: E402

from maxsim_torch import device_available, reference  # noqa: E402
from maxsim_torch.compat import flash_maxsim as flash  # noqa: E402

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
ROUNDING = {torch.float32: 1e-6, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
DEVICE = "cuda" if torch.cuda.is_available() and device_available("cuda") else "cpu"
SEED = int(os.environ.get("MAXSIM_TEST_SEED", "20240611"))
PARTS = "maxsim_torch.compat.flash_maxsim._arguments._PART_BYTES"
# (Lq, Ld, d): single tokens, values of d near multiples of 16, and more query tokens than one chunk (128) holds.
SHAPES = ((1, 1, 1), (1, 9, 24), (5, 1, 17), (33, 50, 40), (130, 33, 15))


def named(path):
    """Returns a function of the package. `path` is the function's name, with or without its submodule."""
    *module, name = path.split(".")
    return getattr(importlib.import_module(".".join((flash.__name__, *module))), name)


def true_scores(queries, documents, **arguments):
    return reference.maxsim_scores(queries.double(), documents.double(), **arguments)


class CompatTest(unittest.TestCase):
    """The base class of the tests. Makes tensors on the GPU if there is one, otherwise on the CPU."""

    def setUp(self):
        self.random = torch.Generator("cpu").manual_seed(SEED)
        print(f"MAXSIM_TEST_SEED={SEED} on {DEVICE}")
        torch.set_default_device(DEVICE)
        self.addCleanup(torch.set_default_device, None)

    def values(self, *shape, dtype=torch.float32):
        return torch.randn(shape, generator=self.random, device="cpu").to(DEVICE, dtype)

    def integers(self, low, high, *shape, dtype=torch.int32):
        """Integers from `low` to `high`."""
        return torch.randint(low, high + 1, shape, generator=self.random, device="cpu").to(DEVICE, dtype)

    def mixture(self, *shape):
        """Exact factors of scores, some of them 0."""
        return self.integers(-8, 8, *shape) / 8.0

    def lengths(self, most, *shape):
        """Returns lengths from 1 to `most`, except that the second length is 0."""
        lengths = self.integers(1, most, *shape)
        lengths.view(-1)[1] = 0
        return lengths

    def near(self, got, wanted, rounding=0.0, name=""):
        self.assertEqual(tuple(got.shape), tuple(wanted.shape), name)
        magnitude = wanted[wanted.isfinite()].abs().max().item() if wanted.isfinite().any() else 1.0
        torch.testing.assert_close(
            got.double(),
            wanted.double(),
            rtol=rounding,
            atol=1e-5 * max(magnitude, 1.0),
            msg=lambda text: f"{name}: {text}",
        )

    def scores_near(self, got, wanted, name=""):
        self.assertEqual(got.dtype, torch.float32, name)
        self.assertFalse(got.requires_grad, name)
        self.near(got, wanted, name=name)

    def cases(self):
        for dtype, (query_tokens, document_tokens, dim) in itertools.product(FLOATS, SHAPES):
            name = f"{dtype} {query_tokens} x {document_tokens} x {dim}"
            yield (
                name,
                self.values(3, query_tokens, dim, dtype=dtype),
                self.values(7, document_tokens, dim, dtype=dtype),
            )
