"""Lets tests import the packages of client/python from the source tree. Call use_package() before the first `import
maxsim`."""

import importlib.util
import os
import pathlib
import subprocess
import sys

PYTHON_CLIENT = pathlib.Path(__file__).resolve().parents[2] / "client" / "python"


def use_package():
    """Generates maxsim/v1 if it is missing or older than its sources, and puts client/python first on the path. Every
    version of protobuf can read the generated files, so the tests of several environments share them. If this
    environment lacks grpcio-tools, $MAXSIM_PYTHON (default: python3) generates them."""
    python = sys.executable
    if importlib.util.find_spec("grpc_tools") is None:
        python = os.environ.get("MAXSIM_PYTHON", "python3")
    subprocess.run([python, "-B", str(PYTHON_CLIENT / "generate.py")], check=True)
    sys.path.insert(0, str(PYTHON_CLIENT))
