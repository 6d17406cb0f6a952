#!/usr/bin/python3
"""Counts signs of unclear English in the comments of all sources, and fails when there are too many of them.

  scripts/check-comments.py [--list] [FILE...]     default: every source file of the repository

The signs are those of SIGNS, such as a comment that begins with a verb and so has no subject. One sign can be right
where it stands, so only their sum has a limit. --list prints each place as FILE:LINE: sign: line. Reads C++, CUDA,
protobuf, JavaScript, Python (comments and first lines of docstrings), shell, CMake, YAML, Makefiles and Dockerfiles.
The inputs of the fuzz tests (tests/fuzz/corpus) are data and are left out.
"""

import argparse
import ast
import bisect
import io
import pathlib
import re
import subprocess
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_SIGNS = 150

# Patterns with \A are searched for at the beginning of a comment only.
SIGNS = {
    "opens with Has, Is or Are": re.compile(r"\A(?:Has|Is|Are)\b"),
    "opens with What": re.compile(r"\AWhat\b"),
    "behind": re.compile(r"\bbehind\b", re.IGNORECASE),
    "null:": re.compile(r"\bnull: "),
    "who, somebody, nobody": re.compile(r"\b(?:who|whoever|somebody|nobody)\b", re.IGNORECASE),
    "so many": re.compile(r"\bso many\b", re.IGNORECASE),
    "of which": re.compile(r"\bof which\b", re.IGNORECASE),
    "that is made": re.compile(r"\bthat is made\b"),
    "wants": re.compile(r"\bwants\b"),
    "a for per": re.compile(r"\b[a-z]+s_an?_[a-z]+\b"),
}

SLASHES = {".cc", ".h", ".cu", ".cuh", ".proto", ".js"}
HASHES = {".sh", ".cmake", ".yaml", ".yml"}
HASH_NAMES = {"CMakeLists.txt", "Makefile", "Dockerfile"}
IGNORED = "tests/fuzz/corpus/"

# Strings come first, so that a comment mark inside of one is skipped. A quote after a digit separates thousands.
SLASH_TOKEN = re.compile(
    r'R"(?P<end>\w*)\(.*?\)(?P=end)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<!\w)'(?:\\.|[^'\\\n])+'"
    r"|//(?P<line>[^\n]*)"
    r"|/\*(?P<block>.*?)\*/",
    re.DOTALL,
)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
HASH_LINE = re.compile(r"(?:^|(?<=\s))#(?P<line>.*)$")


def slash_comments(text):
    """Yields (line, column, text) for each line of a comment in C++, protobuf or JavaScript."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    for match in SLASH_TOKEN.finditer(text):
        if match["line"] is None and match["block"] is None:
            continue
        row = bisect.bisect_right(starts, match.start())
        column = match.start() - starts[row - 1]
        for offset, line in enumerate((match["line"] or match["block"] or "").split("\n")):
            yield row + offset, column, re.sub(r"^\s*[/*!]*<?\s*", "", line)


def hash_comments(text):
    """Yields (line, column, text) for each comment in a language whose comments begin with #."""
    for number, line in enumerate(text.split("\n"), 1):
        match = HASH_LINE.search(line) if not (number == 1 and line.startswith("#!")) else None
        # An odd number of quotes before the mark means that it is inside of a string.
        if match and all(line[: match.start()].count(quote) % 2 == 0 for quote in "'\""):
            yield number, match.start(), match["line"].strip()


def python_comments(text):
    """Yields (line, column, text) for each comment and for the first line of each docstring."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.string.startswith("#!"):
            yield *token.start, token.string.lstrip("#").strip()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            docstring = node.body[0].value
            # No comment has the column -1. So a comment above the docstring does not seem to continue in it.
            yield docstring.lineno, -1, ast.get_docstring(node).split("\n")[0]


def reader_of(name, text):
    """Returns the function that reads the comments of the file, or None for a file that is not read."""
    path = pathlib.PurePosixPath(name)
    if path.suffix in SLASHES:
        return slash_comments
    if path.suffix == ".py":
        return python_comments
    if path.suffix in HASHES or path.name in HASH_NAMES or re.match(r"#!.*\b(ba)?sh\b", text):
        return hash_comments
    return None


def comments(lines):
    """Joins the lines of each comment. Yields a list of (line, text): consecutive lines in the same column."""
    block, last = [], None
    for number, column, text in sorted(lines):
        if block and last != (number - 1, column):
            yield block
            block = []
        block.append((number, text))
        last = number, column
    if block:
        yield block


def signs_of(lines):
    """Yields (line, sign, text of the line) for every sign in a file's comments."""
    for block in comments(lines):
        ends, end = [], 0
        for _, text in block:
            end += len(text) + 1
            ends.append(end)
        joined = " ".join(text for _, text in block)
        for sign, pattern in SIGNS.items():
            for match in pattern.finditer(joined):
                number, text = block[bisect.bisect_right(ends, match.start())]
                yield number, sign, text


def source_files():
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    names = [name for name in output.decode().split("\0") if name and not name.startswith(IGNORED)]
    return [name for name in names if (ROOT / name).is_file()]


def check(names):
    """Returns the number of files read and [(file, line, sign, text)] of all signs in them."""
    found, num_files = [], 0
    for name in names:
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        reader = reader_of(name, text)
        if reader:
            num_files += 1
            found += [(name, *place) for place in sorted(signs_of(reader(text)))]
    return num_files, found


def summary(found):
    """Returns a text with the number of all signs and the count of each."""
    counts = {sign: sum(place[2] == sign for place in found) for sign in SIGNS}
    by_sign = ", ".join(
        f"{sign} {count}" for sign, count in sorted(counts.items(), key=lambda item: -item[1]) if count
    )
    return f"{len(found)} signs of unclear English" + (f" ({by_sign})" if by_sign else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="print the place of each sign")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    num_files, found = check([str(pathlib.Path(name)) for name in options.files] or source_files())
    if options.list:
        for name, number, sign, text in found:
            print(f"{name}:{number}: {sign}: {text}")
    if len(found) > MAX_SIGNS:
        print(f"comments: {summary(found)}, more than the limit {MAX_SIGNS}; --list shows them", file=sys.stderr)
        sys.exit(1)
    print(f"comments: {num_files} files, {summary(found)}, the limit is {MAX_SIGNS}")


if __name__ == "__main__":
    main()
