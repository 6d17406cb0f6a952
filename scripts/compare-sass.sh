#!/usr/bin/env bash
# Compares the GPU code of two build trees, kernel by kernel. For changes that must not change the code that GPUs run.
#
#   scripts/compare-sass.sh BUILD_A BUILD_B
#
# Every .cu object of both trees is disassembled. A kernel is identified by its architecture and its demangled name
# without namespaces and parameter types, so that files, folders, namespaces and types may have been renamed. A kernel
# with a new name is found by its code. Two kernels are equal if their instructions (with encodings), registers, stack
# and shared memory are. Prints the number of equal kernels, and names those that differ or exist in only one tree.
# Fails if there are any.
#
# Needs cuobjdump and nvdisasm of a CUDA toolkit, on the path or in CUDA_HOME/bin, or CUOBJDUMP to say where.
set -euo pipefail

if [ $# -ne 2 ] || [ ! -d "$1" ] || [ ! -d "$2" ]; then
  sed -n 's/^# \?//; 2,4p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
cuobjdump=${CUOBJDUMP:-$(command -v cuobjdump || echo "${CUDA_HOME:-/usr/local/cuda}/bin/cuobjdump")}
if [ ! -x "$cuobjdump" ]; then
  echo "compare-sass: there is no cuobjdump ($cuobjdump)" >&2
  exit 2
fi
# cuobjdump runs the nvdisasm that is on the path.
PATH=$(dirname "$cuobjdump"):$PATH

exec python3 - "$cuobjdump" "$1" "$2" <<'PYTHON'
import collections
import hashlib
import pathlib
import re
import subprocess
import sys


def run(*command, text=None):
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def without_parameters(name):
    """The demangled name up to the parameter list that follows its outermost template arguments."""
    depth = 0
    for at, letter in enumerate(name):
        depth += {"<": 1, ">": -1}.get(letter, 0)
        if letter == "(" and depth == 0 and not name.startswith("(anonymous namespace)", at):
            return name[:at]
    return name


def known_as(name):
    name = name.removeprefix("void ")
    name = without_parameters(re.sub(r"_INTERNAL_\w+::|_GLOBAL__N__\w+::|\(anonymous namespace\)::", "", name))
    return re.sub(r"\b\w+::", "", name)


def kernels(cuobjdump, build):
    """[(architecture, mangled name, digest)] of all kernels of the tree's objects."""
    found = []
    for path in sorted(pathlib.Path(build).rglob("*.cu.o")):
        usage, arch, function = {}, "", ""
        for line in run(cuobjdump, "-res-usage", path).splitlines():
            if match := re.match(r"arch = (\S+)", line.strip()):
                arch = match.group(1)
            elif match := re.match(r"Function (\S+):$", line.strip()):
                function = match.group(1)
            elif function:
                usage[arch, function] = line.strip()
                function = ""
        codes = collections.defaultdict(list)
        for line in run(cuobjdump, "-sass", path).splitlines():
            if match := re.match(r"arch = (\S+)", line.strip()):
                arch = match.group(1)
            elif match := re.match(r"Function : (\S+)$", line.strip()):
                function = match.group(1)
            elif "/*" in line:
                codes[arch, function].append(" ".join(line.split()))
        for (arch, function), code in codes.items():
            text = usage.get((arch, function), "") + "\n" + "\n".join(code).replace(function, "")
            found.append((arch, function, hashlib.sha256(text.encode()).hexdigest()))
    names = run("c++filt", text="\n".join(function for _, function, _ in found)).splitlines()
    return [(f"{arch} {known_as(name)}", digest) for (arch, _, digest), name in zip(found, names)]


def main():
    cuobjdump, *builds = sys.argv[1:]
    lists = [sorted(kernels(cuobjdump, build)) for build in builds]
    for build, found in zip(builds, lists):
        if not found:
            sys.exit(f"compare-sass: no kernel in {build}")
    alone = [collections.Counter(lists[0]) - collections.Counter(lists[1]),
             collections.Counter(lists[1]) - collections.Counter(lists[0])]
    equal = len(lists[0]) - alone[0].total()
    left = [sorted(counter.elements()) for counter in alone]
    renamed = 0
    for name, digest in list(left[0]):
        twin = next((other for other in left[1] if other[1] == digest), None)
        if twin is not None and all(name != other for other, _ in left[1]):
            print(f"renamed: {name} -> {twin[0]}")
            left[0].remove((name, digest))
            left[1].remove(twin)
            renamed += 1
    differing = sorted({name for name, _ in left[0]} & {name for name, _ in left[1]})
    for name in differing:
        print(f"differs: {name}")
    for build, entries in zip(builds, left):
        for name, _ in entries:
            if name not in differing:
                print(f"only in {build}: {name}")
    print(f"sass: {len(lists[0])} and {len(lists[1])} kernels, {equal + renamed} equal ({renamed} of them renamed), "
          f"{len(differing)} differ")
    sys.exit(1 if left[0] or left[1] else 0)


main()
PYTHON
