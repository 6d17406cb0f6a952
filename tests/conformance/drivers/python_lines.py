"""Connects drivers in Python to the runner: calls come on standard input, answers go to standard output."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from case_files import with_integers, without_large_integers  # noqa: E402

__all__ = ["answer_lines", "without_large_integers"]


def answer_lines(driver):
    """Reads calls from standard input, one per line, and prints the result of `driver.answer` for each."""
    sys.stdin.reconfigure(encoding="utf-8")
    for line in sys.stdin:
        print(json.dumps(driver.answer(with_integers(json.loads(line)))), flush=True)
