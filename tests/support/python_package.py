"""Lets tests import the packages of client/python from the source tree. Call use_package() before the first `import
maxsim`."""

import importlib.util
import os
import pathlib
import subprocess
import sys

PYTHON_CLIENT = pathlib.Path(__file__).resolve().parents[2] / "client" / "python"


def use_package():
    """Generates the protobuf modules maxsim/v1 if they are missing or older than their sources, and puts client/python
    first on sys.path. If this environment lacks grpcio-tools, $MAXSIM_PYTHON (default: python3) generates them. Every
    version of protobuf can read the result."""
    python = sys.executable
    if importlib.util.find_spec("grpc_tools") is None:
        python = os.environ.get("MAXSIM_PYTHON", "python3")
    subprocess.run([python, "-B", str(PYTHON_CLIENT / "generate.py")], check=True)
    sys.path.insert(0, str(PYTHON_CLIENT))
