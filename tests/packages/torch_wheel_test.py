"""The wheel maxsim-torch: its tag and its files, and a gradient with nothing but the wheel and PyTorch.

python torch_wheel_test.py BUILD_FOLDER          with torch installed
"""

import email
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAM = """
import pathlib, torch, maxsim_torch
queries = torch.randn(2, 4, 16, requires_grad=True)
documents = torch.randn(3, 9, 16, requires_grad=True)
scores = maxsim_torch.maxsim_scores(queries, documents)
scores.sum().backward()
assert queries.grad.abs().sum() > 0 and documents.grad.abs().sum() > 0
torch.testing.assert_close(scores, maxsim_torch.reference.maxsim_scores(queries, documents))
print(pathlib.Path(maxsim_torch.__file__).parent, maxsim_torch.__version__)
"""


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class TorchWheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-torch-wheel-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        script = ROOT / "scripts" / "packages" / "torch_wheel.py"
        cls.wheel = pathlib.Path(output(sys.executable, "-B", script, BUILD, cls.folder / "wheels").strip())
        cls.version = re.search(r"CMAKE_PROJECT_VERSION:\w+=(.+)", (BUILD / "CMakeCache.txt").read_text())[1]

    def test_is_of_every_python_and_says_what_it_needs(self):
        self.assertRegex(
            self.wheel.name, rf"^maxsim_torch-{re.escape(self.version)}-py3-none-manylinux_2_\d+_x86_64\.whl$"
        )
        with zipfile.ZipFile(self.wheel) as archive:
            names = archive.namelist()
            metadata = email.message_from_bytes(archive.read(f"maxsim_torch-{self.version}.dist-info/METADATA"))
        self.assertEqual(metadata["Version"], self.version)
        self.assertEqual(metadata.get_all("Requires-Dist"), ["torch>=2.4"])
        self.assertIn("maxsim_torch/lib/libmaxsim.so.0", names)
        self.assertIn("maxsim_torch/py.typed", names)

    def test_gives_a_gradient_where_only_the_wheel_is_installed(self):
        target = self.folder / "installed"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        output(*pip, "--no-deps", "--no-index", "--target", target, self.wheel)
        environment = {name: value for name, value in os.environ.items() if name != "MAXSIM_LIBRARY"}
        environment["PYTHONPATH"] = str(target)
        shown = output(sys.executable, "-B", "-c", PROGRAM, cwd=self.folder, env=environment).split()
        self.assertEqual(shown, [str(target / "maxsim_torch"), self.version])

    def test_the_library_exports_the_functions_of_its_headers_and_no_others(self):
        headers = (ROOT / "kernels" / "library" / "include" / "maxsim").glob("*.h")
        text = "".join(header.read_text() for header in headers)
        declared = set(re.findall(r"^(?:maxsim_status|const char\*) (maxsim_\w+)\(", text, re.MULTILINE))
        shown = output("nm", "-D", "--defined-only", BUILD / "lib" / "libmaxsim.so.0")
        exported = {line.split()[2].split("@")[0] for line in shown.splitlines() if " T " in line}
        self.assertEqual(exported, declared)
        self.assertGreater(len(declared), 5)

    def test_the_same_build_gives_the_same_bytes(self):
        script = ROOT / "scripts" / "packages" / "torch_wheel.py"
        again = pathlib.Path(output(sys.executable, "-B", script, BUILD, self.folder / "again").strip())
        self.assertEqual(again.read_bytes(), self.wheel.read_bytes())


if __name__ == "__main__":
    unittest.main()
