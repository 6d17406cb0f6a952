#!/usr/bin/python3
"""Builds the wheel maxsim-torch out of a build folder: the Python package of client/torch with libmaxsim.so in it.

  scripts/packages/torch_wheel.py BUILD_FOLDER TARGET_FOLDER

Prints the wheel's path. The library is called through ctypes and links neither Python nor PyTorch, so that one wheel is
for all releases of both. The version is that of CMake's project, the platform tag is what manylinux.py finds.
"""

import pathlib
import shutil
import subprocess
import sys

import licences
import manylinux
import wheel_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "client" / "torch"

METADATA = """\
Metadata-Version: 2.4
Name: maxsim-torch
Version: {version}
Summary: MaxSim of late interaction as PyTorch operators: scores, matches and deterministic gradients
Author: The maxsimd authors
License: Apache-2.0{cuda_licence}
License-File: LICENSE
Keywords: maxsim,colbert,colpali,late-interaction,pytorch,retrieval
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: GPU :: NVIDIA CUDA :: 13
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Typing :: Typed
Requires-Python: >=3.9
Requires-Dist: torch>=2.4
Description-Content-Type: text/markdown

"""


def die(message):
    sys.exit(f"torch_wheel: {message}")


def lay_out(build, library, package):
    """Fills the folder of the Python package. Returns the platform tag."""
    shutil.copytree(SOURCE / "maxsim_torch", package, ignore=shutil.ignore_patterns("__pycache__", "lib"))
    (package / "lib").mkdir()
    target = package / "lib" / "libmaxsim.so.0"
    strip = licences.cached_variable(build, "CMAKE_STRIP") or "strip"
    subprocess.run([strip, "--strip-unneeded", "-o", str(target), str(library)], check=True)
    return manylinux.platform_tag(package)


def write_dist_info(folder, version, tag, cuda):
    """Writes the metadata of the package. `cuda` is the licence of the CUDA runtime in the library, or None."""
    (folder / "licenses").mkdir(parents=True)
    shutil.copyfile(ROOT / "LICENSE", folder / "licenses" / "LICENSE")
    note = ""
    if cuda:
        (folder / "licenses" / "cuda-runtime").mkdir()
        shutil.copyfile(cuda, folder / "licenses" / "cuda-runtime" / "License.txt")
        note = ", and that of the CUDA runtime in the library\nLicense-File: cuda-runtime/License.txt"
    metadata = METADATA.format(version=version, cuda_licence=note)
    (folder / "METADATA").write_text(metadata + (SOURCE / "README.md").read_text())
    (folder / "WHEEL").write_text(wheel_file.WHEEL.format(tag=tag))


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    library = build / "lib" / "libmaxsim.so.0"
    if not library.exists():
        die(f"{library} is not there: build the target maxsim_shared first")
    version = licences.cached_variable(build, "CMAKE_PROJECT_VERSION")

    def make_files(package, dist_info):
        tag = lay_out(build, library, package)
        write_dist_info(dist_info, version, tag, licences.cuda_licence(build))
        return tag

    try:
        wheel = wheel_file.build("maxsim_torch", version, target, make_files)
    except (licences.NoLicence, manylinux.NotManylinux, subprocess.CalledProcessError) as problem:
        die(problem)
    print(wheel)


if __name__ == "__main__":
    main()
