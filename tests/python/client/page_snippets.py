"""Runs the Python code of documentation pages as a reader would run it."""

import os
import re
import subprocess
import sys

from python_package import PYTHON_CLIENT


def snippets(page):
    """Returns the page's blocks of Python code."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run_snippet(code, address, folder, **replaced):
    """Runs a code block of a page in a folder, with the server's address and other names replaced. Returns its
    output."""
    assert "localhost:7070" in code, code
    for old, new in {"localhost:7070": address, **replaced}.items():
        code = code.replace(old, new)
    environment = dict(os.environ, PYTHONPATH=str(PYTHON_CLIENT))
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{code}\nfailed:\n{done.stdout}{done.stderr}")
    return done.stdout
