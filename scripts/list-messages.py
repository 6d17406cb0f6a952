#!/usr/bin/python3
"""Prints a table of all error and log messages, so that they can be read side by side.

  scripts/list-messages.py [--by-text] [FILE...]     default: every source outside of tests, benchmarks and scripts

One message per line, in three columns with a tab between them: FILE:LINE, the kind (the function or exception, or the
level of a log line) and the text. Parts that are filled in are shown as {expression}. --by-text sorts by text, so that
messages that begin alike stand together. A message says what was wrong, where, and what to do, in this order.

In C++ a message is an argument of absl::...Error, of a function in CALLS, of log::Write or of fprintf(stderr).
In Python it is that of a raised exception. An error that only hands on another one's text is left out.
"""

import argparse
import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("backup", "base", "client", "collection", "demo", "kernels", "loadtest", "server", "tools")
CPP_SUFFIXES = {".cc", ".h", ".cu", ".cuh"}

CALLS = re.compile(
    r"\b(absl::\w+Error|(?:\w+::)?log::Write(?:Table)?|spdlog::(?:warn|error|info)|fprintf(?=\(stderr,)"
    r"|(?:\w+::)*(?:\w*Error|Invalid\w*|Refus\w+|Mismatch|AboutField))\("
)
# The number of arguments before the text, by the function's name without its namespace.
BEFORE_TEXT = {"FieldError": 2, "AboutField": 1, "PathError": 1, "fprintf": 1}
WITH_FIELD = {"FieldError", "AboutField", "InvalidField"}
# Functions that only join or convert their arguments.
JOINING = re.compile(r"(?:absl::|std::)?(?:StrCat|Cat|string|string_view|ForStrCat)\((?P<inside>.*)\)\Z", re.DOTALL)

LITERAL = r'"(?:\\.|[^"\\\n])*"'
TOKEN = re.compile(
    rf"(?P<string>{LITERAL})|(?P<char>(?<!\w)'(?:\\.|[^'\\\n])+')|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL
)
ONLY_LITERALS = re.compile(rf"(?:{LITERAL}\s*)+\Z")
ESCAPES = {r"\"": '"', r"\\": "\\", r"\n": " ", r"\t": " "}


def has_words(message):
    """Returns true if the message has text of its own, besides the parts that are filled in."""
    return re.search("[A-Za-z]", re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", "", message)) is not None


def without_comments(text):
    """Replaces comments by spaces, so that all positions stay."""
    return TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match[0]) if match["comment"] else match[0], text)


def arguments_at(text, start):
    """Returns the arguments of the call whose first argument begins at `start`, or None if the text ends before the
    call does."""
    arguments, depth, begin, at = [], 0, start, start
    while at < len(text):
        literal = TOKEN.match(text, at)
        if literal:
            at = literal.end()
            continue
        char = text[at]
        if char in "([{":
            depth += 1
        elif char in ")]}" and depth > 0:
            depth -= 1
        elif char == ")":
            return [*arguments, text[begin:at].strip()]
        elif char == "," and depth == 0:
            arguments.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    return None


def text_of(expression):
    """Returns the expression as text: literals as they are, everything else in braces."""
    if ONLY_LITERALS.match(expression):
        joined = "".join(literal[1:-1] for literal in re.findall(LITERAL, expression))
        return re.sub(r"\\.", lambda match: ESCAPES.get(match[0], match[0]), joined)
    joining = JOINING.match(expression)
    if joining:
        arguments = arguments_at(joining["inside"] + ")", 0)
        # If the call ends before the expression does, the expression is a sum such as Cat(a) + Cat(b).
        if arguments and arguments_length(joining["inside"]) == len(joining["inside"]):
            return "".join(text_of(argument) for argument in arguments)
    return "{" + " ".join(expression.split()) + "}"


def arguments_length(inside):
    """Returns the length of the arguments of a call that begins with `inside`. It is less than len(inside) if a
    parenthesis closes the call earlier."""
    depth, at = 0, 0
    while at < len(inside):
        literal = TOKEN.match(inside, at)
        if literal:
            at = literal.end()
            continue
        depth += (inside[at] in "([{") - (inside[at] in ")]}")
        if depth < 0:
            break
        at += 1
    return at


def log_text(arguments):
    """Returns the kind and the text of log::Write(level, event, {{key, value}, ...}, table)."""
    level, event, *rest = arguments
    parts = [text_of(event)]
    if rest and rest[0].startswith("{"):
        for field in arguments_at(rest[0][1:-1] + ")", 0):
            inside = arguments_at(field[1:-1] + ")", 0) if field.startswith("{") else None
            if inside and len(inside) == 2:
                parts.append(f"{text_of(inside[0])}={text_of(inside[1])}")
    return "log " + level.split("::")[-1], " ".join(parts)


def cpp_messages(text):
    """Yields (line, kind, text) of the messages in C++."""
    text = without_comments(text)
    for match in CALLS.finditer(text):
        arguments = arguments_at(text, match.end())
        if not arguments or not any(arguments):
            continue
        name = match[1].split("::")[-1]
        if name.startswith("Write"):
            if "level" not in arguments[0] or len(arguments) < 2 or " " in arguments[0]:
                continue
            kind, message = log_text(arguments)
        elif match[1].startswith("spdlog::"):
            kind, message = "log " + name, text_of(arguments[0])
        else:
            kind, texts = name, [text_of(argument) for argument in arguments[BEFORE_TEXT.get(name, 0) :]]
            if name == "fprintf":
                kind, texts = "stderr", texts[:1]
            message = ": ".join(texts[:2]) if name in WITH_FIELD else "".join(texts)
        if not has_words(message):
            continue
        yield text.count("\n", 0, match.start()) + 1, kind, message


def python_text(node):
    """A Python expression as text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(python_text(value) for value in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    return "{" + ast.unparse(node) + "}"


def python_messages(text):
    """Yields (line, kind, text) of the messages in Python."""
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)):
            continue
        texts = [python_text(argument) for argument in node.exc.args]
        message = ", ".join(text for text in texts if text)
        if has_words(message):
            yield node.lineno, ast.unparse(node.exc.func), " ".join(message.split())


def source_files():
    command = ["git", "ls-files", "-coz", "--exclude-standard", "--", *FOLDERS]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    return [name for name in output.decode().split("\0") if name and (ROOT / name).is_file()]


def messages(names):
    """Returns (FILE:LINE, kind, text) of all messages in the files."""
    rows = []
    for name in names:
        suffix = pathlib.PurePosixPath(name).suffix
        reader = python_messages if suffix == ".py" else cpp_messages if suffix in CPP_SUFFIXES else None
        if reader:
            found = reader((ROOT / name).read_text(encoding="utf-8"))
            rows += [(f"{name}:{number}", kind, text) for number, kind, text in sorted(found)]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by-text", action="store_true", help="sort by text instead of by file")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    rows = messages([str(pathlib.Path(name)) for name in options.files] or source_files())
    if options.by_text:
        rows.sort(key=lambda row: row[2].lower())
    sys.stdout.write("".join("\t".join(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
