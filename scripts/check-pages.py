#!/usr/bin/python3
"""Checks the form of the Markdown pages. check-docs.py checks whether they agree with the programs.

  scripts/check-pages.py

- README.md has at most 150 lines, kernels/README.md at most 80.
- No paragraph has more than 900 characters. A list item and a row of a table count as paragraphs.
- No page names a commit or lists what was tried. That is history, which docs/lab keeps.
- Files and folders in backquotes exist, such as `server/main.cc`, or the end of a path (`cuda/score/sums.cuh`).
  `{h,cc}` and `*` stand for several files. Placeholders in capitals are not checked.

Pages in docs/lab are not checked. Problems are printed as PAGE:LINE: what is wrong.
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_LINES = {"README.md": 150, "kernels/README.md": 80}
MOST_CHARACTERS = 900

FENCE = re.compile(r"^\s*(```|~~~)")
LIST_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
# Words of seven and more hexadecimal digits. Those without a letter may be numbers, so git decides whether a word names
# a commit.
HEX_WORD = re.compile(r"(?<![0-9A-Za-z_./#:-])[0-9a-f]{7,40}(?![0-9A-Za-z_-])")
AT_HASH = re.compile(r"\b(?:at|since|commit|until|before)\s+`?(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b")
# Matches accounts of attempts: "Tried: ...", "Tried on the wide tiles", "what was tried: ...". Does not match "is tried
# by a test".
TRIED = re.compile(r"(?:^|[.:;*(]\s*)\**Tried\b|\b(?:were|was|been) tried\s*[:(]", re.MULTILINE)
# Code in backquotes that has a slash, or the suffix of a source file.
CODE = re.compile(r"`([\w./{},*-]+)`")
SOURCE = re.compile(r"\w\.(?:h|cc|cuh?|py|proto|sh|\{[a-z,]+\})$")
PLACEHOLDER = re.compile(r"(?<![A-Za-z])(?!README)[A-Z]{4,}(?![a-z])|\.\.\.")
GENERATED = ("build/", "client/python/maxsim/v1")


def pages():
    output = subprocess.run(["git", "ls-files", "-z", "--", "*.md"], cwd=ROOT, capture_output=True, check=True).stdout
    names = [name.decode() for name in output.split(b"\0") if name]
    return [name for name in names if not name.startswith("docs/lab/") and (ROOT / name).exists()]


def tree_files():
    """Returns the files of the tree, including those that are not in git yet."""
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    return [name for name in output.decode().split("\0") if name and (ROOT / name).exists()]


def paragraphs(lines):
    """Yields (number of its first line, text) of each paragraph, list item and table row outside of code."""
    start, parts, in_fence, in_comment = 0, [], False, False
    for number, line in enumerate([*lines, ""], 1):
        fence = FENCE.match(line)
        comment = in_comment or line.lstrip().startswith("<!--")
        in_comment = comment and "-->" not in line
        ends = not line.strip() or fence or in_fence or comment or line.startswith("#")
        if parts and (ends or LIST_ITEM.match(line) or line.lstrip().startswith("|")):
            yield start, " ".join(parts)
            parts = []
        if fence:
            in_fence = not in_fence
        if ends:
            continue
        if not parts:
            # Indented lines that continue no paragraph are code.
            if line.startswith("    ") and not LIST_ITEM.match(line):
                continue
            start = number
        parts.append(line.strip())


def known_commits(words):
    """Returns the words that name a commit of this repository."""
    words = sorted(words)
    if not words:
        return set()
    output = subprocess.run(
        ["git", "cat-file", "--batch-check=%(objecttype)"],
        cwd=ROOT,
        input="".join(f"{word}\n" for word in words),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return {word for word, kind in zip(words, output) if kind == "commit"}


def expanded(path):
    """Returns the paths that a path with {a,b} stands for."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    before, after = path[: braces.start()], path[braces.end() :]
    return [one for part in braces[1].split(",") for one in expanded(before + part + after)]


def ends_of(files):
    """Returns the names by which pages may call the files and folders of the tree: whole paths, and ends of files'
    paths."""
    parts = [file.split("/") for file in files]
    folders = {"/".join(path[:count]) for path in parts for count in range(1, len(path))}
    return folders | {"/".join(path[first:]) for path in parts for first in range(len(path))}


def missing_paths(line, ends):
    """Yields the paths in a line's backquotes that are not in ends_of(files). A path with a slash counts if it begins
    with a folder of the root or names a source file, a name without a slash if it names a source file."""
    for code in CODE.findall(line):
        first, slash, _ = code.partition("/")
        is_path = (slash and first in ends) or SOURCE.search(code)
        if not is_path or PLACEHOLDER.search(code) or code.startswith(GENERATED):
            continue
        for path in expanded(code.rstrip("/")):
            if not (any(fnmatch.filter(ends, path)) if "*" in path else path in ends):
                yield path


def problems_of_lines(name, lines, ends):
    """Yields (line, what is wrong) for one page, except for names of commits. `ends` are the result of
    ends_of(files)."""
    if len(lines) > MOST_LINES.get(name, len(lines)):
        yield len(lines), f"has {len(lines)} lines, more than the limit {MOST_LINES[name]}"
    for number, text in paragraphs(lines):
        if len(text) > MOST_CHARACTERS:
            yield number, f"a paragraph has {len(text)} characters, more than the limit {MOST_CHARACTERS}"
        if TRIED.search(text):
            yield number, "says what was tried, which belongs into docs/lab"
    for number, line in enumerate(lines, 1):
        for path in missing_paths(line, ends):
            yield number, f"names {path}, which is not there"
        if AT_HASH.search(line):
            yield number, f'"{AT_HASH.search(line).group()}" names a commit, which belongs into docs/lab'


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    found, words = [], {}
    names = pages()
    ends = ends_of(tree_files())
    for name in names:
        lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
        found += [(name, number, what) for number, what in problems_of_lines(name, lines, ends)]
        for number, line in enumerate(lines, 1):
            for word in HEX_WORD.findall(line):
                words.setdefault(word, []).append((name, number))
    for commit in known_commits(words):
        what = f'"{commit}" names a commit, which belongs into docs/lab'
        found += [(name, number, what) for name, number in words[commit]]
    for name, number, what in sorted(set(found)):
        print(f"{name}:{number}: {what}", file=sys.stderr)
    if found:
        sys.exit(1)
    print(f"pages: {len(names)} in order")


if __name__ == "__main__":
    main()
