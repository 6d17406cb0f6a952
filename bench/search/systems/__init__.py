"""The compared systems: maxsimd, and a file for each peer. A system is imported only when it is used."""

import importlib

from .system import System

NAMES = ("maxsimd", "fast_plaid", "xtr_warp", "tachiom", "qdrant", "lancedb")


def load(name: str) -> type[System]:
    """Returns the class of a system. ImportError if its packages are missing."""
    if name not in NAMES:
        raise ValueError(f"there is no system {name!r}; there are {', '.join(NAMES)}")
    return importlib.import_module(f"{__name__}.{name}_system").SYSTEM
