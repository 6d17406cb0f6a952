"""Lets tests import the packages of client/python from the tree: use_package() before the first `import maxsim`."""

import importlib.util
import os
import pathlib
import subprocess
import sys

PYTHON_CLIENT = pathlib.Path(__file__).resolve().parents[2] / "client" / "python"


def use_package():
    """Makes maxsim/v1 where it is missing or old, and puts client/python first on the path. What generate.py makes can
    be read by every protobuf, so that tests of several environments share it; one that lacks grpcio-tools leaves the
    making to $MAXSIM_PYTHON (default: python3)."""
    python = sys.executable
    if importlib.util.find_spec("grpc_tools") is None:
        python = os.environ.get("MAXSIM_PYTHON", "python3")
    subprocess.run([python, "-B", str(PYTHON_CLIENT / "generate.py")], check=True)
    sys.path.insert(0, str(PYTHON_CLIENT))
