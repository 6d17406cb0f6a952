"""Shared by the tests of maxsim_torch: the library from the first argument, a seed, and devices."""

import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
if "MAXSIM_LIBRARY" not in os.environ or (len(sys.argv) > 1 and ".so" in sys.argv[1]):
    os.environ["MAXSIM_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
sys.path.insert(0, str(ROOT / "client" / "torch"))

import torch  # noqa: E402

import maxsim_torch  # noqa: E402

SEED = int(os.environ.get("MAXSIM_TEST_SEED", "20240611"))
CUDA = torch.cuda.is_available() and maxsim_torch.device_available("cuda")
DEVICES = ("cpu", "cuda") if CUDA else ("cpu",)
# The largest relative error of rounding to a type.
ROUNDING = {torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}


class TorchTest(unittest.TestCase):
    def setUp(self):
        self.random = torch.Generator().manual_seed(SEED)

    def values(self, *shape, ties=False):
        """Returns random values. With `ties`, they are small integers, so that many similarities are equal and sums are
        exact."""
        if ties:
            return torch.randint(-1, 2, shape, generator=self.random).float()
        return torch.randn(shape, generator=self.random)

    def refuse(self, error, pattern, function, *arguments, **more):
        with self.assertRaisesRegex(error, pattern):
            function(*arguments, **more)

    def check_same_bits(self, tensors, others):
        self.assertEqual(len(tensors), len(others))
        for tensor, other in zip(tensors, others):
            self.assertTrue(torch.equal(tensor, other))


def on(device, arguments):
    """The arguments, with tensors on the device."""
    return {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in arguments.items()}


def run_tests():
    print(f"MAXSIM_TEST_SEED={SEED}", flush=True)
    unittest.main(verbosity=2)
