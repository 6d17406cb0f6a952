#!/usr/bin/python3
"""Writes the manual pages of the programs from their --help and that of their subcommands.

  scripts/packages/man_pages.py PROGRAM_FOLDER TARGET_FOLDER [EMULATOR...]

Writes TARGET_FOLDER/man8/maxsimd.8.gz and TARGET_FOLDER/man1/NAME.1.gz for the other three. EMULATOR is the command that
runs cross-compiled programs: qemu with its flags.
"""

import gzip
import pathlib
import re
import subprocess
import sys
import textwrap

SECTIONS = {"maxsimd": 8, "maxsimctl": 1, "maxsim-shard": 1, "maxsim-loadtest": 1}
COLUMNS = 78
# Matches the part of a line before a text in the second column: an option, a subcommand, or only spaces.
TWO_COLUMNS = re.compile(r"^ {2,8}-.*?\S {2,}(?=\S)|^ {2}[a-z-]+ {2,}(?=\S)| {20,}")
SUBCOMMAND = re.compile(r"^  ([a-z][a-z-]*) {2,}\S")


def output_of(program, *arguments):
    command = [*sys.argv[3:], program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def help_of(program, *subcommand):
    return output_of(program, *subcommand, "--help")


def subcommands(text):
    """Returns the first words of the lines under "Subcommands:", which are the names of the subcommands."""
    listed = text.partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    return [found[1] for found in map(SUBCOMMAND.match, listed.splitlines()) if found]


def commands(program, text, path=()):
    """Yields the words and the help text of each subcommand, each before its own subcommands."""
    for name in subcommands(text):
        help_text = help_of(program, *path, name)
        yield (*path, name), help_text
        yield from commands(program, help_text, (*path, name))


def escape(text):
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    # troff would take a line that begins with a dot or a quote for a command.
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def verbatim(text):
    """Returns the lines unchanged, except that a line that is too long is wrapped. It continues in its second column
    or, without one, under its own indentation."""
    lines = []
    for line in text.rstrip().splitlines():
        column = TWO_COLUMNS.match(line)
        width = len(column[0]) if column and len(column[0]) < COLUMNS / 2 else len(line) - len(line.lstrip()) + 2
        wrapped = textwrap.wrap(line, COLUMNS, subsequent_indent=" " * width, break_long_words=False)
        lines += wrapped or [""]
    return "\n".join([".nf", *map(escape, lines), ".fi"])


def summary(name, text):
    """Returns the first line of a help text, in the form that the NAME section needs."""
    first = text.splitlines()[0].rstrip(".").removeprefix(f"{name}: ")
    return first[0].lower() + first[1:]


def page(program, name, section, version):
    text = help_of(program)
    # The first line stands under NAME. The rest is usage, options and examples.
    body = text.partition("\n")[2].lstrip("\n")
    parts = [f'.TH {name.upper()} {section} "" "maxsim {version}" "maxsimd"', ".SH NAME"]
    parts += [f"{escape(name)} \\- {escape(summary(name, text))}", ".SH DESCRIPTION", verbatim(body)]
    for path, help_text in commands(program, text):
        parts += [f".SH {escape(' '.join([name, *path])).upper()}", verbatim(help_text)]
    others = [f"\\fB{escape(other)}\\fR({number})" for other, number in SECTIONS.items() if other != name]
    parts += [".SH SEE ALSO", ",\n".join(others) + "."]
    parts.append("The pages in /usr/share/doc/maxsim\\-server/docs.")
    return "\n".join(parts) + "\n"


def main():
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    programs, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    for name, section in SECTIONS.items():
        program = programs / name
        shown = output_of(program, "--version")
        folder = target / f"man{section}"
        folder.mkdir(parents=True, exist_ok=True)
        data = page(program, name, section, shown.split()[1]).encode()
        (folder / f"{name}.{section}.gz").write_bytes(gzip.compress(data, mtime=0))


if __name__ == "__main__":
    main()
