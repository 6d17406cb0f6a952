#!/usr/bin/python3
"""Collects the licences of other projects' code in the programs: bundled libraries, and headers and the CUDA runtime that
are compiled in. For the packages that scripts/packages builds, on a Debian or an Ubuntu. For a cross-compiled build, the
licences come from the folder of arm64 packages that scripts/arm64-sysroot.sh filled.

  scripts/packages/licences.py BUILD_FOLDER TARGET_FOLDER [LIBRARY...]

writes the licences of what is compiled in and of each LIBRARY, which is a path on this machine.
"""

import pathlib
import re
import shutil
import subprocess
import sys

# A header of each library that is compiled into the programs and so has no shared library. Boost is left out: its
# licence sets no conditions for passing on object code alone.
COMPILED_IN = ["/usr/include/CLI/CLI.hpp", "/usr/include/nlohmann/json.hpp"]
COMMON_LICENCE = re.compile(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9])")


class NoLicence(Exception):
    """The programs contain something whose licence is not on this machine."""


def cached_variable(build, name):
    """Returns the value of a variable in the build folder's CMakeCache.txt, or "" if it has none."""
    for line in (pathlib.Path(build) / "CMakeCache.txt").read_text().splitlines():
        if re.match(re.escape(name) + r":[A-Z]+=", line):
            return line.partition("=")[2]
    return ""


def system_root(build):
    """Returns the root of the system whose packages the build uses: /, or the folder that scripts/arm64-sysroot.sh filled."""
    return pathlib.Path(cached_variable(build, "MAXSIM_ARM64_SYSROOT") or "/").resolve()


def dpkg_query(root, *arguments):
    command = ["dpkg-query", f"--admindir={root / 'var/lib/dpkg'}", *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def owners(paths, root=pathlib.Path("/")):
    """Returns the names of the Debian packages to which files below the system's root belong, as {path: package}.
    Raises NoLicence for a file of no package."""
    candidates = {}
    for path in paths:
        inside = f"/{pathlib.Path(path).absolute().relative_to(root)}"
        resolved = f"/{pathlib.Path(path).resolve().relative_to(root)}"
        # With a merged /usr, a file has two paths, with and without /usr, and its package may list either.
        candidates[path] = [inside, resolved, resolved.removeprefix("/usr"), f"/usr{resolved}"]
    wanted = sorted({name for names in candidates.values() for name in names})
    # dpkg-query reports an error for a name that no package has, but still answers for the others.
    shown = dpkg_query(root, "-S", *wanted).stdout if wanted else ""
    lines = (line.rpartition(": ") for line in shown.splitlines())
    found = {name: packages.split(":")[0] for packages, _, name in lines}
    packages = {}
    for path, names in candidates.items():
        package = next((found[name] for name in names if name in found), None)
        if package is None:
            raise NoLicence(f"{path} belongs to no Debian package, so that its licence is not known")
        packages[path] = package
    return packages


def version_of(root, package):
    shown = dpkg_query(root, "-W", "-f", "${Version}\n", package)
    shown.check_returncode()
    return shown.stdout.splitlines()[0]


def cuda_licence(build):
    """Returns NVIDIA's licence of the CUDA runtime that is linked into the programs, or None without the CUDA
    backend."""
    nvcc = cached_variable(build, "MAXSIM_NVCC")
    if cached_variable(build, "MAXSIM_CUDA") == "OFF" or not nvcc or nvcc.endswith("NOTFOUND"):
        return None
    toolkit = pathlib.Path(nvcc).resolve().parents[1]
    # The paths of NVIDIA's installer, of the wheels on PyPI, and of NVIDIA's Debian packages.
    for folder, pattern in (
        (toolkit, "EULA.txt"),
        (toolkit, "License.txt"),
        (toolkit, "dist-info/nvidia_cuda_runtime-*/licenses/License.txt"),
        (pathlib.Path("/usr/share/doc"), "cuda-cudart-dev-*/copyright"),
    ):
        found = sorted(folder.glob(pattern))
        if found:
            return found[-1]
    raise NoLicence(f"{toolkit} has no licence of the CUDA runtime (EULA.txt)")


def collect(build, libraries, target):
    """Copies into the folder `target` the licences of the libraries (paths on this machine) and of what is compiled in,
    with libraries.txt, which names each. Raises NoLicence."""
    target = pathlib.Path(target)
    root = system_root(build)
    lines, packages, common = [], {}, set()
    headers = [root / header.lstrip("/") for header in COMPILED_IN]
    for path, package in owners([*libraries, *filter(pathlib.Path.exists, headers)], root).items():
        packages.setdefault(package, []).append(pathlib.Path(path).name)
    for package, names in sorted(packages.items()):
        source = root / "usr/share/doc" / package / "copyright"
        if not source.exists():
            raise NoLicence(f"{source} is not there")
        (target / package).mkdir(parents=True)
        shutil.copyfile(source, target / package / "copyright")
        common |= set(COMMON_LICENCE.findall(source.read_text(errors="replace")))
        lines.append(f"{package} {version_of(root, package)}: {' '.join(sorted(set(names)))}")
    # The copyright files refer to these texts by their paths on a Debian machine.
    for name in sorted(common):
        source = pathlib.Path("/usr/share/common-licenses", name)
        if source.exists():
            (target / "common-licenses").mkdir(exist_ok=True)
            shutil.copyfile(source, target / "common-licenses" / name)
    cuda = cuda_licence(build)
    if cuda:
        (target / "cuda-runtime").mkdir()
        shutil.copyfile(cuda, target / "cuda-runtime" / "License.txt")
        lines.append("cuda-runtime: libcudart_static.a, under NVIDIA's licence")
    text = "Each line: the Debian package, its version, and its files that are in the programs or beside them.\n"
    (target / "libraries.txt").write_text(text + "\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        collect(sys.argv[1], sys.argv[3:], sys.argv[2])
    except NoLicence as problem:
        sys.exit(f"licences: {problem}")
