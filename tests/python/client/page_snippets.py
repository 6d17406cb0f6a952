"""The Python code of pages, as their readers would run it."""

import os
import re
import subprocess
import sys

from python_package import PYTHON_CLIENT


def snippets(page):
    """Returns the blocks of Python of a page."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def run_snippet(code, address, folder, **replaced):
    """Returns what a block prints, in a folder, with another server than the page's and other names than its own."""
    assert "localhost:7070" in code, code
    for old, new in {"localhost:7070": address, **replaced}.items():
        code = code.replace(old, new)
    environment = dict(os.environ, PYTHONPATH=str(PYTHON_CLIENT))
    command = [sys.executable, "-W", "error::DeprecationWarning:__main__", "-c", code]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{code}\nfailed:\n{done.stdout}{done.stderr}")
    return done.stdout
