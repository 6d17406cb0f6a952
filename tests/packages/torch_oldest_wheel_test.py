"""The wheel maxsim-torch with the oldest PyTorch that it asks for: its operators and their gradients on the CPU.

python torch_oldest_wheel_test.py BUILD_FOLDER          with that torch installed, and without CUDA's libraries
"""

import pathlib
import re
import shutil
import sys
import tempfile
import unittest
import zipfile

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import cuda_stubs  # noqa: E402
from wheel_fixture import PROGRAM, build_wheel, install, output  # noqa: E402


class OldestTorchTest(unittest.TestCase):
    def test_every_operator_works(self):
        with tempfile.TemporaryDirectory(prefix="maxsim-torch-oldest-") as scratch:
            folder = pathlib.Path(scratch)
            wheel = build_wheel(BUILD, folder / "wheels")
            with zipfile.ZipFile(wheel) as archive:
                metadata = next(name for name in archive.namelist() if name.endswith("/METADATA"))
                oldest = re.search(r"^Requires-Dist: torch>=(\S+)$", archive.read(metadata).decode(), re.MULTILINE)[1]
            libraries = (
                pathlib.Path(sys.prefix) / "lib" / f"python3.{sys.version_info.minor}" / "site-packages/torch/lib"
            )
            stubs = cuda_stubs.make(libraries, folder / "stubs")
            environment = {**install(wheel, folder / "installed"), "LD_LIBRARY_PATH": str(stubs)}
            shown = output(sys.executable, "-B", "-c", PROGRAM, cwd=folder, env=environment).split()
            self.assertEqual(shown[0], str(folder / "installed" / "maxsim_torch"))
            self.assertEqual(re.match(r"\d+\.\d+", shown[2])[0], oldest)


if __name__ == "__main__":
    missing = [program for program in ("cc", "nm", "readelf") if shutil.which(program) is None]
    if missing:
        print(f"skipped: {missing[0]} is not installed, with which CUDA's libraries are replaced")
        sys.exit(77)
    unittest.main()
