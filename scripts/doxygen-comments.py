#!/usr/bin/python3
"""Prints a header with its ordinary comments as Doxygen reads them: the filter of docs/Doxyfile.

  scripts/doxygen-comments.py FILE

A comment at the beginning of a file describes the file, one before a declaration the declaration, and one after a
member, with the following lines in the same column, the member. Indented lines of a comment are an example or a
table.
"""

import pathlib
import re
import sys

COMMENT = re.compile(r"^(?P<before>.*?)(?<![:/])//(?P<text>.*)$")
ITEM = re.compile(r"^ *- ")
DEEP = "   "


def escaped(text):
    """Returns `text` with Doxygen's commands, tags and links escaped."""
    # A range that ends a line, "1 ..", would be the end of a list.
    return re.sub(r"([\\@<>#&]|(?<= )\.(?=\.)|(?<= \.)\.)", r"\\\1", text)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    column = None  # where the previous line's comment begins, if it follows code
    in_list = False
    in_head = True
    began = False
    for line in pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        found = COMMENT.match(line)
        if found is None:
            column, in_list = None, False
            in_head = in_head and not line.strip()
            print(line)
            continue
        before, text = found.group("before"), found.group("text")
        if before.strip():
            column, in_head = len(before), False
            print(f"{before}///<{escaped(text)}")
            continue
        if column == len(before):
            print(f"{before}///<{escaped(text)}")
            continue
        column = None
        if in_head and not began:
            began = True
            print("/// \\file")
            print("///")
        if not text.strip():
            in_list = False
        elif ITEM.match(text):
            in_list = True
        if text.startswith(DEEP) and not in_list:
            # An indented line is code in Markdown, in which nothing is escaped. A C comment in it is removed, because
            # its end would also end Doxygen's comment.
            print(f"{before}///    {re.sub(r'/[*].*?[*]/', '', text)}")
        else:
            print(f"{before}///{escaped(text)}")


if __name__ == "__main__":
    main()
