"""The conversation of drivers that are written in Python with the runner (docs/internals/conformance.md)."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from case_files import with_integers, without_large_integers  # noqa: E402

__all__ = ["answer_lines", "without_large_integers"]


def answer_lines(driver):
    """Reads calls from standard input, one a line, and prints the answer of `driver.answer` to each."""
    sys.stdin.reconfigure(encoding="utf-8")
    for line in sys.stdin:
        print(json.dumps(driver.answer(with_integers(json.loads(line)))), flush=True)
