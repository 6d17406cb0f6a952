"""Tests the version and the devices of the package maxsim_torch, and runs the code in its pages.

python package_test.py LIBMAXSIM.so        with torch installed
"""

import contextlib
import io
import re

from scores_case import SeededTest
from torch_fixture import ROOT, run_tests

import maxsim_torch


class PagesTest(SeededTest):
    def test_the_page_and_the_readme_run(self):
        for page in (ROOT / "docs" / "use" / "pytorch.md", ROOT / "client" / "torch" / "README.md"):
            text = page.read_text()
            codes = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                for code in codes:
                    exec(compile(code, str(page), "exec"), {})
            self.assertEqual(printed.getvalue(), "".join(re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S)))
            self.assertTrue(codes)


class LibraryTest(SeededTest):
    def test_says_its_version_and_its_devices(self):
        self.assertRegex(maxsim_torch.library_version(), r"^\d+\.\d+\.\d+$")
        self.assertEqual(maxsim_torch.__version__, maxsim_torch.library_version())
        self.assertTrue(maxsim_torch.device_available("cpu"))
        self.assertIsInstance(maxsim_torch.device_available("cuda"), bool)
        with self.assertRaisesRegex(ValueError, "device is 'tpu'"):
            maxsim_torch.device_available("tpu")


if __name__ == "__main__":
    run_tests()
