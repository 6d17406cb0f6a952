#!/usr/bin/python3
"""Builds the wheel maxsim-server out of a build folder: the four programs with their libraries, for Linux on the
machine of the build, x86-64 or 64-bit Arm.

  scripts/packages/server_wheel.py BUILD_FOLDER TARGET_FOLDER

Prints the wheel's path. The version is that of CMake's project, the platform tag is what manylinux.py finds. The same
build gives the same bytes: times are SOURCE_DATE_EPOCH's, or those of the commit.
"""

import pathlib
import shutil
import subprocess
import sys

import licences
import manylinux
import wheel_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "deploy" / "wheel"
PROGRAMS = ("maxsimd", "maxsimctl", "maxsim-shard", "maxsim-loadtest")

METADATA = """\
Metadata-Version: 2.4
Name: maxsim-server
Version: {version}
Summary: maxsimd, an exact MaxSim rerank service for late-interaction retrieval: the programs, for CPU and CUDA
Author: The maxsimd authors
License: Apache-2.0, and those of the bundled libraries
{licence_files}
Keywords: maxsim,colbert,late-interaction,rerank,retrieval,cuda
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: Console
Classifier: Environment :: GPU :: NVIDIA CUDA :: 13
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Text Processing :: Indexing
Requires-Python: >=3.9
Description-Content-Type: text/markdown

"""


def die(message):
    sys.exit(f"server_wheel: {message}")


def lay_out(build, package, licences_folder):
    """Fills the folder `package` of the Python package with programs, libraries and examples, and the folder of the
    licences. Returns the platform tag."""
    bundle = package.with_name("bundle").resolve()
    command = [ROOT / "scripts" / "bundle.sh", "--manylinux", build, bundle]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    tag = manylinux.platform_tag(bundle)
    libraries = (bundle / "libraries.list").read_text().split()
    shutil.copytree(SOURCE / "maxsim_server", package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("bin", "lib"):
        shutil.move(bundle / folder, package / folder)
    shutil.rmtree(bundle)
    share = package / "share"
    share.mkdir()
    for example in ("maxsimd.yaml", "gpu.yaml"):
        shutil.copyfile(ROOT / "config" / example, share / example)
    licences.collect(build, libraries, licences_folder)
    shutil.copyfile(ROOT / "LICENSE", licences_folder / "LICENSE")
    return tag


def write_dist_info(folder, version, tag):
    licence_folder = folder / "licenses"
    names = sorted(str(path.relative_to(licence_folder)) for path in licence_folder.rglob("*") if path.is_file())
    lines = "\n".join(f"License-File: {name}" for name in names)
    metadata = METADATA.format(version=version, licence_files=lines) + (SOURCE / "README.md").read_text()
    (folder / "METADATA").write_text(metadata)
    (folder / "WHEEL").write_text(wheel_file.WHEEL.format(tag=tag))
    entries = [f"{name} = maxsim_server.launch:{name.replace('-', '_')}\n" for name in PROGRAMS]
    (folder / "entry_points.txt").write_text("[console_scripts]\n" + "".join(entries))


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    build, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for name in PROGRAMS:
        if not (build / "bin" / name).exists():
            die(f"{build}/bin/{name} is not there: `make programs` first")
    version = licences.cached_variable(build, "CMAKE_PROJECT_VERSION")

    def make_files(package, dist_info):
        tag = lay_out(build, package, dist_info / "licenses")
        write_dist_info(dist_info, version, tag)
        return tag

    try:
        wheel = wheel_file.build("maxsim_server", version, target, make_files)
    except (licences.NoLicence, manylinux.NotManylinux, subprocess.CalledProcessError) as problem:
        die(problem)
    print(wheel)


if __name__ == "__main__":
    main()
