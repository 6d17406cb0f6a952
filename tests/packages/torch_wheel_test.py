"""Tests the wheel maxsim-torch: its tag, its files, and a gradient in an environment with no more than the wheel and
PyTorch.

python torch_wheel_test.py BUILD_FOLDER          with torch installed
"""

import email
import pathlib
import re
import sys
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).parent))

from wheel_fixture import PROGRAM, build_for, build_wheel, install, output  # noqa: E402


class TorchWheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        build_for(cls, BUILD)
        cls.version = re.search(r"CMAKE_PROJECT_VERSION:\w+=(.+)", (BUILD / "CMakeCache.txt").read_text())[1]

    def test_is_of_every_python_and_says_what_it_needs(self):
        self.assertRegex(
            self.wheel.name, rf"^maxsim_torch-{re.escape(self.version)}-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl$"
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
        environment = install(self.wheel, target)
        shown = output(sys.executable, "-c", PROGRAM, cwd=self.folder, env=environment).split()
        self.assertEqual(shown[:2], [str(target / "maxsim_torch"), self.version])

    def test_the_library_exports_the_functions_of_its_headers_and_no_others(self):
        headers = sorted((ROOT / "kernels" / "library" / "include" / "maxsim").glob("*.h"))
        text = "\n".join(header.read_text() for header in headers)
        declared = set(re.findall(r"^(?:maxsim_status|const char\*) (maxsim_\w+)\(", text, re.MULTILINE))
        shown = output("nm", "-D", "--defined-only", BUILD / "lib" / "libmaxsim.so.0")
        exported = {line.split()[2].split("@")[0] for line in shown.splitlines() if " T " in line}
        self.assertEqual(exported, declared)
        self.assertGreater(len(declared), 5)

    def test_the_same_build_gives_the_same_bytes(self):
        again = build_wheel(BUILD, self.folder / "again")
        self.assertEqual(again.read_bytes(), self.wheel.read_bytes())


if __name__ == "__main__":
    unittest.main(verbosity=2)
