#!/usr/bin/python3
"""Prints the manylinux tag of a folder of programs and libraries, from what its ELF files require of a machine.

  scripts/packages/manylinux.py FOLDER

The tag is manylinux_2_N_MACHINE, where 2.N is the oldest glibc that suffices. All files must be for one MACHINE, x86_64
or aarch64. Fails if a file needs a library that is neither in FOLDER/lib nor part of every manylinux platform (PEP
600), or a symbol version that no such platform has. Reads the files by readelf (binutils).
"""

import pathlib
import re
import subprocess
import sys

# Shared libraries that the wheel may expect the machine to have.
FROM_THE_MACHINE = {
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "libresolv.so.2",
    "librt.so.1",
    "libstdc++.so.6",
}
# {number of the machine in an ELF file (e_machine): (name in the tag, file name of its loader)}
MACHINES = {62: ("x86_64", "ld-linux-x86-64.so.2"), 183: ("aarch64", "ld-linux-aarch64.so.1")}
# For each glibc 2.N: the newest versions of GCC's libraries that all platforms with this or a newer glibc have. They
# are those of the oldest distribution with that glibc: 2.34 is RHEL 9, 2.35 Ubuntu 22.04, 2.39 Ubuntu 24.04.
GCC_LIBRARIES = {
    34: {"GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)},
    35: {"GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)},
    39: {"GLIBCXX": (3, 4, 33), "CXXABI": (1, 3, 15), "GCC": (14, 0, 0)},
}

NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[(.+)\]")
NEEDED_VERSION = re.compile(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_(\S+)")
# A loader older than glibc 2.36 does not know packed relocations. Files that have them require this version name.
PACKED_RELOCATIONS = ("ABI_DT_RELR", (2, 36))


class NotManylinux(Exception):
    """A file requires something that no manylinux platform promises."""


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def elf_files(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and is_elf(path)]


def machine_of(files):
    """Returns the name and the loader of the machine for which all these ELF files are. Raises NotManylinux if they are for
    several machines, or for one that is not in MACHINES."""
    # The number of the machine is at offset 18. Both machines write the low byte first.
    numbers = {int.from_bytes(path.read_bytes()[18:20], "little"): path.name for path in files}
    for number, name in numbers.items():
        if number not in MACHINES:
            raise NotManylinux(f"{name} is for the machine {number} of the ELF format, which is neither x86_64 nor aarch64")
    if len(numbers) != 1:
        raise NotManylinux(f"{' and '.join(sorted(numbers.values()))} are for different machines")
    return MACHINES[next(iter(numbers))]


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, str(path)], check=True, capture_output=True, text=True).stdout


def parse_version(kind, text):
    if (kind, text) == ("GLIBC", PACKED_RELOCATIONS[0]):
        return PACKED_RELOCATIONS[1]
    if not re.fullmatch(r"[0-9.]+", text):
        raise NotManylinux(f"the version {kind}_{text} of a symbol is none of a release")
    return tuple(int(part) for part in text.split("."))


def needed_versions(folder):
    """Returns the newest version of each kind that a file requires, as {kind: (version, file)}. Raises NotManylinux."""
    newest = {}
    files = elf_files(folder)
    if not files:
        raise NotManylinux(f"{folder} has no programs or libraries")
    loader = machine_of(files)[1]
    own = {path.name for path in files if path.parent == folder / "lib"}
    for path in files:
        for name in NEEDED.findall(readelf("-d", path)):
            if name not in own and name not in FROM_THE_MACHINE and name != loader:
                raise NotManylinux(f"{path.name} needs {name}, which neither {folder / 'lib'} nor every machine has")
        for kind, text in NEEDED_VERSION.findall(readelf("-V", path).partition("Version needs section")[2]):
            version = parse_version(kind, text)
            newest[kind] = max(newest.get(kind, ((), "")), (version, path.name))
    return newest


def oldest_glibc(newest):
    """Returns the N of the oldest glibc 2.N that has all versions of needed_versions(). Raises NotManylinux."""
    major, minor = newest.get("GLIBC", ((2, 17), ""))[0][:2]
    if major != 2:
        raise NotManylinux(f"glibc {major}.{minor} is not 2.N")
    for first, promised in sorted(GCC_LIBRARIES.items()):
        if all(newest.get(kind, ((), ""))[0] <= version for kind, version in promised.items()):
            return max(minor, first)
    raise NotManylinux(f"no known platform has these versions of GCC's libraries: {newest}")


def platform_tag(folder):
    newest = needed_versions(pathlib.Path(folder))
    return f"manylinux_2_{oldest_glibc(newest)}_{machine_of(elf_files(pathlib.Path(folder)))[0]}"


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    try:
        print(platform_tag(sys.argv[1]))
    except NotManylinux as problem:
        sys.exit(f"manylinux: {problem}")
