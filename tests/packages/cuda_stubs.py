"""Makes fake CUDA libraries, so that a PyTorch build for CUDA can be imported without gigabytes of real ones.

On x86-64 Linux, PyPI has PyTorch only for CUDA, whose libraries cannot be loaded without CUDA's libraries. make()
writes libraries of the same names, with the functions that PyTorch imports. Each function returns cudaErrorNoDevice. So
PyTorch finds no GPU and computes on the CPU.
"""

import collections
import pathlib
import re
import subprocess

# Imported functions without a symbol version belong to the library whose prefix in this table their name has.
UNVERSIONED = (("curand", "libcurand.so.10"), ("nccl", "libnccl.so.2"), ("cu", "libcuda.so.1"))


def _output(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def _symbols(library):
    """Returns the names that the library defines, and a set of the (name, version) that it imports."""
    defined, wanted = set(), set()
    for line in _output("nm", "-D", library).splitlines():
        *_, kind, symbol = line.split()
        name, _, version = symbol.partition("@")
        if kind == "U":
            wanted.add((name, version.lstrip("@")))
        elif kind not in "wv":
            defined.add(name)
    return defined, wanted


def make(torch_libraries, folder):
    """Writes into `folder` a fake of each CUDA library that the libraries in the folder `torch_libraries` need. Needs a
    C compiler and binutils."""
    names, defined, wanted = set(), set(), set()
    for library in sorted(torch_libraries.glob("*.so*")):
        names |= set(re.findall(r"NEEDED.*\[(lib(?:cu|nv|nccl)\w*\.so\.\d+)\]", _output("readelf", "-d", library)))
        own, others = _symbols(library)
        defined |= own
        wanted |= others
    functions = collections.defaultdict(set)
    for name, version in wanted:
        if name in defined:
            continue
        if version in names:
            functions[version].add(name)
        elif not version:
            owner = next((owner for prefix, owner in UNVERSIONED if name.startswith(prefix)), None)
            functions[owner].add(name)
    folder.mkdir()
    for name in sorted(names):
        source, script = folder / f"{name}.c", folder / f"{name}.map"
        source.write_text("".join(f"int {function}(void) {{ return 100; }}\n" for function in sorted(functions[name])))
        versions = [] if name in dict(UNVERSIONED).values() else [f"-Wl,--version-script={script}"]
        script.write_text(f"{name} {{ global: *; }};\n")
        command = ["cc", "-shared", "-w", "-fno-builtin", f"-Wl,-soname,{name}", *versions, source, "-o", folder / name]
        _output(*command)
    return pathlib.Path(folder)
