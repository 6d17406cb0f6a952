"""Tests the wheel maxsim-torch with the oldest PyTorch that it supports: operators and their gradients on the CPU.

python torch_oldest_wheel_test.py BUILD_FOLDER          with that torch installed, and without CUDA's libraries
"""

import pathlib
import re
import sys
import unittest
import zipfile

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import cuda_stubs  # noqa: E402
from wheel_fixture import PROGRAM, build_for, install, output  # noqa: E402


# A program that prints the number of calls through PyTorch's dispatcher, and the error for a forward-mode derivative.
MODES = """
import torch
from torch.autograd import forward_ad
from unittest import mock

import maxsim_torch
from maxsim_torch import operators

queries, documents = torch.randn(2, 3, 8, requires_grad=True), torch.randn(4, 5, 8)
with mock.patch.object(operators.scores, "_overload") as passed_on:
    wanted = maxsim_torch.maxsim_scores(queries, documents)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            scores = maxsim_torch.maxsim_scores(queries, documents)
        assert torch.equal(scores, wanted) and not scores.requires_grad, mode
    print(passed_on.call_count)
with forward_ad.dual_level():
    dual = forward_ad.make_dual(queries.detach(), torch.ones(2, 3, 8))
    try:
        print(maxsim_torch.maxsim_scores(dual, documents))
    except NotImplementedError as problem:
        print(problem)
"""


class OldestTorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build_for(cls, BUILD)
        libraries = pathlib.Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages/torch/lib"
        stubs = cuda_stubs.make(libraries, cls.folder / "stubs")
        cls.environment = {**install(cls.wheel, cls.folder / "installed"), "LD_LIBRARY_PATH": str(stubs)}

    def run_program(self, program):
        return output(sys.executable, "-c", program, cwd=self.folder, env=self.environment)

    def test_every_operator_works(self):
        with zipfile.ZipFile(self.wheel) as archive:
            metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
            oldest = re.search(r"^Requires-Dist: torch>=(\S+)$", archive.read(metadata).decode(), re.MULTILINE)[1]
        shown = self.run_program(PROGRAM).split()
        self.assertEqual(shown[0], str(self.folder / "installed" / "maxsim_torch"))
        self.assertEqual(re.match(r"\d+\.\d+", shown[2])[0], oldest)

    def test_modes_compute_at_once_and_forward_derivatives_are_refused(self):
        passed_on, error = self.run_program(MODES).strip().split("\n")
        self.assertEqual(int(passed_on), 0)
        self.assertIn("no forward-mode derivatives", error)


if __name__ == "__main__":
    unittest.main(verbosity=2)
