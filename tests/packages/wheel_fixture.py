"""Shared by the tests of the wheel maxsim-torch: builds the wheel, installs it alone, and has a program that uses
it."""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A program that checks a few results, and prints the package's folder and the versions of the package and of PyTorch.
PROGRAM = """
import pathlib, torch, maxsim_torch
from maxsim_torch import fused_head_scores, maxsim_scores, maxsim_top_k, reference
queries = torch.randn(2, 4, 16, requires_grad=True)
documents = torch.randn(3, 9, 16, requires_grad=True)
scores = maxsim_scores(queries, documents)
scores.sum().backward()
assert queries.grad.abs().sum() > 0 and documents.grad.abs().sum() > 0
torch.testing.assert_close(scores, reference.maxsim_scores(queries, documents))
saved = torch.autograd.grad(maxsim_scores(queries, documents, save_documents="int8").sum(), queries)
torch.testing.assert_close(saved[0], queries.grad, rtol=0, atol=0.2)
weight = torch.randn(16, 24, requires_grad=True)
loss = lambda function: function(queries, torch.ones(3, 9, 24) + torch.arange(27.0).reshape(3, 9, 1), weight).sum()
fused, plain = (torch.autograd.grad(loss(function), weight)[0] for function in
                (fused_head_scores, reference.fused_head_scores))
torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-4)
best = maxsim_top_k(queries, documents, 3, block_documents=2)
torch.testing.assert_close(best.scores, scores.sort(1, descending=True).values)
small = documents.detach().to(torch.float8_e4m3fn)
torch.testing.assert_close(maxsim_scores(queries.detach(), small), maxsim_scores(queries.detach(), small.float()))
compiled = torch.compile(maxsim_scores, backend="aot_eager", fullgraph=True)
torch.testing.assert_close(compiled(queries, documents), scores)
print(pathlib.Path(maxsim_torch.__file__).parent, maxsim_torch.__version__, torch.__version__)
"""


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build_wheel(build, folder):
    """Makes the wheel from a build folder. Returns its path."""
    script = ROOT / "scripts" / "packages" / "torch_wheel.py"
    return pathlib.Path(output(sys.executable, "-B", script, build, folder).strip())


def build_for(case, build):
    """Sets case.folder, a temporary folder that is removed at the end, and case.wheel, which is built there from a
    build folder."""
    temporary = tempfile.TemporaryDirectory(prefix="maxsim-torch-wheel-")
    case.addClassCleanup(temporary.cleanup)
    case.folder = pathlib.Path(temporary.name)
    case.wheel = build_wheel(build, case.folder / "wheels")


def install(wheel, target):
    """Installs the wheel, without dependencies, into the folder `target`. Returns an environment in which programs use
    it."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    output(*pip, "--no-deps", "--no-index", "--target", target, wheel)
    environment = {name: value for name, value in os.environ.items() if name != "MAXSIM_LIBRARY"}
    return {**environment, "PYTHONPATH": str(target)}
