"""The programs of maxsimd: the server maxsimd, its command line maxsimctl, maxsim-shard, which builds collections, and
maxsim-loadtest. Installing it puts all four on the PATH; this module says where they are.

    python -m maxsim_server                 lists the programs and files of the package
    python -m maxsim_server configuration   prints the path of the example configuration
"""

from __future__ import annotations

import pathlib
from importlib import metadata

__all__ = ["PROGRAMS", "configuration", "folder", "licences", "program"]

PROGRAMS = ("maxsimd", "maxsimctl", "maxsim-shard", "maxsim-loadtest")


def folder() -> pathlib.Path:
    """Returns the folder of the package: programs are in bin, their libraries in lib, examples in share."""
    return pathlib.Path(__file__).resolve().parent


def program(name: str) -> pathlib.Path:
    """Returns the path of one of PROGRAMS, which runs without Python. Raises ValueError for any other name."""
    if name not in PROGRAMS:
        raise ValueError(f"program: '{name}' is none of {', '.join(PROGRAMS)}")
    return folder() / "bin" / name


def configuration() -> pathlib.Path:
    """Returns the path of an example configuration, which has every key at its default."""
    return folder() / "share" / "maxsimd.yaml"


def licences() -> pathlib.Path:
    """Returns the folder with the licences of the programs and of their libraries."""
    return folder().parent / f"maxsim_server-{metadata.version('maxsim-server')}.dist-info" / "licenses"
