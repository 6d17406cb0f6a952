#!/usr/bin/python3
"""Writes docs/reference/proto.md out of the comments of proto/maxsim/v1/*.proto.

  scripts/make-proto-reference.py            writes the page
  scripts/make-proto-reference.py --check    fails where the page is not what it would write

Understands only the parts of the language that these files use: services with their methods, messages with fields and
oneofs, enums, and comments above a declaration or at its end. Any other line is an error.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ("rerank", "documents", "admin")
PAGE = ROOT / "docs" / "reference" / "proto.md"

METHOD = re.compile(r"rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\);$")
FIELD = re.compile(r"(repeated |optional )?([\w.]+) (\w+) = (\d+);$")
VALUE = re.compile(r"(\w+) = (\d+);$")
OPENING = re.compile(r"(service|message|enum|oneof) (\w+) \{(\})?$")
IGNORED = re.compile(r'(syntax|package|option|import)\b.*;$')


class Block:
    """A service, a message or an enum. `rows` are (name, type, number, text); a method has no number."""

    def __init__(self, kind, name, text):
        self.kind, self.name, self.text, self.rows = kind, name, text, []


def prose(lines):
    """Comment lines as one paragraph."""
    return " ".join(line.strip() for line in lines if line.strip())


def paragraphs(lines):
    """Comment lines as paragraphs, which empty ones part."""
    return "\n\n".join(prose(text.split("\n")) for text in "\n".join(map(str.strip, lines)).split("\n\n"))


def head_of(lines):
    """Returns the comment at the head of a file as Markdown. An indented line begins a row of a table of status
    codes."""
    output, rows = [], []

    def end_table():
        if rows:
            output.extend(["", "| code | when |", "|---|---|"])
            output.extend(f"| `{code}` | {cell(text)} |" for code, text in rows)
            output.append("")
            rows.clear()

    for line in lines:
        row = re.match(r"^ {3}([A-Z_]+) {2,}(.*)$", line)
        if row:
            rows.append([row[1], row[2]])
        elif rows and line.startswith("      "):
            rows[-1][1] += " " + line.strip()
        else:
            end_table()
            output.append(line.strip())
    end_table()
    return "\n".join(output).strip()


def cell(text):
    return text.replace("|", "\\|")


def read(path):
    """The head and the blocks of a file."""
    head, blocks, pending, stack = None, [], [], []
    block = oneof = None
    oneof_text = ""  # the comment of a oneof, repeated for each of its fields
    last = None  # (row, column) of a comment after code; a comment in that column of the next line continues it
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        code, mark, comment = line.partition("//")
        column = len(code)
        code = code.strip()
        if mark and not code:
            if last is not None and column == last[1]:
                last[0][3] = prose([last[0][3], comment])
            else:
                pending.append(comment)
                last = None
            continue
        last = None
        if not code:
            if head is None and pending:
                head, pending = head_of(pending), []
            continue
        if head is None:
            head, pending = head_of(pending), []
        about, pending = pending + ([comment] if mark else []), []
        text = prose(about)
        opening, method, field, value = (form.match(code) for form in (OPENING, METHOD, FIELD, VALUE))
        if opening:
            kind, name, closed = opening.groups()
            if kind == "oneof":
                oneof, oneof_text = name, text
            else:
                block = Block(kind, name, paragraphs(about))
                blocks.append(block)
            if not closed:
                stack.append(kind)
        elif code == "}" and stack:
            if stack.pop() == "oneof":
                oneof, oneof_text = None, ""
        elif method and block and block.kind == "service":
            name, asks_many, request, answers_many, response = method.groups()
            asks, answers = ("stream " + link(message) if many else link(message)
                             for many, message in ((asks_many, request), (answers_many, response)))
            block.rows.append([name, f"{asks} → {answers}", "", paragraphs(about)])
        elif value and block and block.kind == "enum":
            block.rows.append([value[1], "", value[2], text])
        elif field and block and block.kind == "message":
            label, kind, name, tag = field.groups()
            shown = (label or "") + (link(kind) if kind[0].isupper() else kind)
            if oneof:
                shown += f", one of `{oneof}`"
            block.rows.append([name, shown, tag, prose([oneof_text, text])])
        elif not IGNORED.match(code):
            sys.exit(f"{path.relative_to(ROOT)}:{number}: not understood: {code}")
        if mark and block and block.rows and (field or value or method):
            last = (block.rows[-1], column)
    return head, blocks


def link(name):
    return f"[{name}](#{name.lower()})"


def table(block):
    if block.kind == "service":
        lines = []
        for name, kind, _, text in block.rows:
            lines += [f"**{name}**: {kind}", "", text, ""]
        return lines
    if not block.rows:
        return ["No fields.", ""]
    if block.kind == "enum":
        lines = ["| value | number | meaning |", "|---|---|---|"]
        return lines + [f"| `{name}` | {tag} | {cell(text)} |" for name, _, tag, text in block.rows] + [""]
    lines = ["| field | type | number | meaning |", "|---|---|---|---|"]
    return lines + [f"| `{name}` | {kind} | {tag} | {cell(text)} |" for name, kind, tag, text in block.rows] + [""]


def page():
    lines = [
        "<!-- Written by scripts/make-proto-reference.py out of proto/maxsim/v1; do not edit. -->",
        "# The wire: maxsim.v1",
        "",
        "For whoever calls maxsimd over gRPC: every service, message and value, as the `.proto` files say it.",
        "",
    ]
    for name in FILES:
        path = ROOT / "proto" / "maxsim" / "v1" / f"{name}.proto"
        head, blocks = read(path)
        lines += [f"## {name}.proto", "", head, ""]
        for block in blocks:
            lines += [f"### {block.name}", ""]
            if block.text:
                lines += [block.text, ""]
            lines += table(block)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip("\n") + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    text = page()
    name = PAGE.relative_to(ROOT)
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            sys.exit(f"reference: {name} is not what proto/ says; scripts/make-proto-reference.py writes it")
        print(f"reference: {name} is what proto/ says")
        return
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
