"""The program `maxsim`."""

from __future__ import annotations

from maxsim.command_line.main import main

__all__ = ["main"]
