"""Runs mypy from the environment in which the test runs."""

import os
import pathlib
import re
import subprocess
import sys


def mypy(folder, *arguments, cache=os.devnull):
    """Runs mypy --strict in `folder`. Without `arguments`, the configuration in the folder says which packages are
    checked. Runs with the same `cache` folder share their results. Returns mypy's output, and a set of the (file, line)
    of each error."""
    command = [pathlib.Path(sys.executable).with_name("mypy"), "--strict", "--no-error-summary", "--cache-dir", cache]
    done = subprocess.run([str(part) for part in (*command, *arguments)], cwd=folder, capture_output=True, text=True)
    found = re.findall(r"^(\S+?):(\d+): error", done.stdout, re.MULTILINE)
    assert done.returncode in (0, 1) and bool(found) == bool(done.returncode), done.stdout + done.stderr
    return done.stdout, {(pathlib.Path(folder / name).resolve(), int(line)) for name, line in found}
