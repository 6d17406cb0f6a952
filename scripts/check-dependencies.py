#!/usr/bin/python3
"""Prints which folder includes which. Fails if a folder includes one above it, if folders or Python modules depend on
each other in a circle, or if code reads the text of an error.

  scripts/check-dependencies.py [--print]

The order is the table in docs/internals/architecture.md between the two comments that name this script. Each row is a
level, the highest first, and names folders in backquotes. A folder may include itself and folders of lower levels,
but not another folder in its row. A file belongs to the longest folder of the table that contains it. With --print,
prints one line per folder, and otherwise only violations.

Folders may not include each other in a circle. A folder counts with everything below it: if a/b/c includes a/d, then
nothing in a/d may include anything in a/b. The files directly in `a` count as one more folder of `a`. The modules of
PACKAGES may not import each other in a circle. Every import counts, even one in a function or only for type checkers.

The text of an error is for people: code finds out what happened from the error's code and details
(client/error_details.h), and never searches its message. Only the files in READS_MESSAGES may, each for the reason
given there. In Python a message is str(error), error.details(), error.message, or a parameter `message: str`.
"""

import ast
import collections
import itertools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "internals" / "architecture.md"
TABLE = re.compile(r"<!-- order: checked by scripts/check-dependencies.py -->\n(.*?)<!-- end of order -->", re.S)
SOURCES = ("*.h", "*.cc", "*.cu", "*.cuh")
READS_MESSAGES = {
    "client/status.cc": "gRPC's own errors have no details",
    "tools/maxsimctl/context/context.cc": "gRPC's own errors have no details",
    "client/python/maxsim/advice.py": "gRPC's own errors have no details",
    "collection/log/log_database.cc": "RocksDB has a code for a full disk, and none for a quota or the largest file",
    "examples/ray/run.py": "Ray keeps the text of an actor's error",
}
MESSAGE_SEARCH = re.compile(
    r"\b(?:StartsWith|EndsWith|StrContains|ConsumePrefix|ConsumeSuffix)\w*\([^;]*?\b(?:message|ToString)\(\)"
    r"|\b(?:message|ToString)\(\)\s*\.\s*(?:find|rfind|starts_with|ends_with|contains)\(")
SEARCHES = {"startswith", "endswith", "find", "rfind", "index", "count", "removeprefix", "removesuffix", "partition",
            "rpartition"}
MATCHES = {"search", "match", "fullmatch", "findall", "finditer", "split"}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)

INCLUDE_ALL = ("tests/", "cmake/", "examples/")  # may include everything, and nothing includes them
PACKAGES = ("client/python/maxsim", "client/python/maxsim_client", "client/python/maxsim_encoder",
            "client/python/maxsim_mcp", "client/torch/maxsim_torch")


def levels():
    """Returns the level of each folder, 0 for the lowest."""
    table = TABLE.search(PAGE.read_text(encoding="utf-8"))
    if table is None:
        sys.exit(f"dependencies: {PAGE.relative_to(ROOT)} has no table of the order")
    rows = [line for line in table.group(1).splitlines() if line.startswith("|")][2:]
    order = {}
    for level, row in enumerate(reversed(rows)):
        for folder in re.findall(r"`([^`]+)/`", row.split("|")[1]):
            if not (ROOT / folder).is_dir():
                sys.exit(f"dependencies: {PAGE.relative_to(ROOT)} names {folder}/, which is no folder")
            order[folder] = level
    return order


def folder_of(path, order):
    """Returns the longest folder of the order that holds `path`, or None."""
    holders = [folder for folder in order if path.startswith(folder + "/")]
    return max(holders, key=len, default=None)


def circle(graph):
    """Returns a circle of the graph {name: names that it needs} as a list that ends where it begins, or None."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return [*path[path.index(name):], name]
        if name in done:
            return None
        path.append(name)
        found = next((found for below in sorted(graph.get(name, ())) if (found := visit(below))), None)
        path.pop()
        done.add(name)
        return found

    return next((found for name in sorted(graph) if (found := visit(name))), None)


def include_circles(names, root=ROOT):
    """Yields an error for each folder whose parts include each other in a circle. Its parts are its subfolders, each
    with everything below it, and its own files."""
    graphs = collections.defaultdict(lambda: collections.defaultdict(set))
    for name in names:
        folder = pathlib.PurePosixPath(name).parent.parts
        for included in INCLUDE.findall((root / name).read_text(encoding="utf-8")):
            below = pathlib.PurePosixPath(included).parent.parts
            if below == folder or not (root / included).exists():
                continue
            depth = next(i for i, (a, b) in enumerate(itertools.zip_longest(folder, below)) if a != b)
            graphs["/".join(folder[:depth])]["/".join(folder[: depth + 1])].add("/".join(below[: depth + 1]))
    for folder, graph in sorted(graphs.items()):
        found = circle(graph)
        if found is not None:
            yield "folders include each other in a circle: " + " -> ".join(
                f"{part}/" + ("*" if part == folder else "") for part in found)


def is_message(node, errors, messages):
    """Returns true if an expression is the text of one of the variables `errors`, or is one of the variables
    `messages`."""
    if isinstance(node, ast.Name):
        return node.id in messages
    if isinstance(node, ast.Attribute):
        return node.attr == "message" and isinstance(node.value, ast.Name) and node.value.id in errors
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1:
        return isinstance(node.args[0], ast.Name) and node.args[0].id in errors
    return isinstance(node.func, ast.Attribute) and node.func.attr == "details" and not node.args


def message_searches(tree):
    """Yields the lines of a Python module that search the text of an error."""
    errors = {"error"} | {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name}
    messages = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and node.arg == "message"
                and isinstance(node.annotation, ast.Name) and node.annotation.id == "str"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            found = any(isinstance(operator, (ast.In, ast.NotIn)) and is_message(right, errors, messages)
                        for operator, right in zip(node.ops, node.comparators))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            found = node.func.attr in SEARCHES and is_message(node.func.value, errors, messages)
            found |= node.func.attr in MATCHES and any(is_message(one, errors, messages) for one in node.args)
        else:
            continue
        if found:
            yield node.lineno


def python_searches():
    """Yields an error for each place in a Python file that searches the text of an error."""
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", "*.py"], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.splitlines()
    for name in names:
        if name.startswith("tests/") or name in READS_MESSAGES or not (ROOT / name).exists():
            continue
        for line in message_searches(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            yield f"{name}:{line} searches the text of an error: read its attributes"


def imported(tree, package, modules):
    """Yields the names in `modules` that a module of `package` imports. `from package import name` is an import of the
    module package.name, if there is one, and otherwise of the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                if name in modules or base in modules:
                    yield name if name in modules else base


def import_circles():
    """Yields an error for each Python package whose modules import each other in a circle."""
    for folder in map(pathlib.PurePosixPath, PACKAGES):
        files = {}
        listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", f"{folder}/*.py"], cwd=ROOT,
                                check=True, capture_output=True, text=True).stdout.splitlines()
        for name in filter(lambda name: (ROOT / name).exists(), listed):
            parts = pathlib.PurePosixPath(name).relative_to(folder.parent).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = name
        graph = {}
        for module, name in files.items():
            package = module if name.endswith("/__init__.py") else module.rpartition(".")[0]
            tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
            graph[module] = set(imported(tree, package, files)) - {module}
        found = circle(graph)
        if found is not None:
            yield f"{folder}: modules import each other in a circle: {' -> '.join(found)}"


def main():
    order = levels()
    names = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", *SOURCES], cwd=ROOT, check=True,
                           capture_output=True, text=True).stdout.splitlines()
    names = [name for name in names if (ROOT / name).exists() and not name.startswith(INCLUDE_ALL)]
    edges = collections.defaultdict(set)
    wrong = []
    for name in names:
        includer = folder_of(name, order)
        if includer is None:
            wrong.append(f"{name}: its folder stands nowhere in the order")
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        if name not in READS_MESSAGES and (search := MESSAGE_SEARCH.search(text)):
            line = text.count("\n", 0, search.start()) + 1
            wrong.append(f"{name}:{line} searches the text of an error: read its details (client/error_details.h)")
        for included in INCLUDE.findall(text):
            if included.startswith("tests/"):
                wrong.append(f"{name} includes {included}, a test's")
            if not (ROOT / included).exists():
                continue  # A library's, or generated.
            below = folder_of(included, order)
            if below is None or below == includer:
                continue
            edges[includer].add(below)
            if order[below] >= order[includer]:
                wrong.append(f"{name} includes {included}: {below}/ does not stand below {includer}/")
    wrong += [*include_circles(names), *import_circles(), *python_searches()]
    if "--print" in sys.argv[1:]:
        for folder in sorted(order, key=lambda name: (-order[name], name)):
            print(f"{folder}/ -> {', '.join(sorted(name + '/' for name in edges[folder])) or 'nothing'}")
    for line in wrong:
        print(f"dependencies: {line}", file=sys.stderr)
    print(f"dependencies: {len(order)} folders, {sum(map(len, edges.values()))} arrows, {len(wrong)} against the order")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
