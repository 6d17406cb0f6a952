"""Parses the command line of `maxsim` and runs the command that it names.

Exit codes: 0: done. 1: the command failed, and one line on standard error says why. 2: the command line is wrong. 128
+ N: ended by signal N (130 for Ctrl-C)."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType
from typing import NoReturn, Optional, Sequence

import maxsim
from maxsim.command_line import import_command
from maxsim.command_line.printable import printable


class _Terminated(BaseException):
    """Raised by SIGTERM. Like KeyboardInterrupt it unwinds the stack, so that a command cleans up."""


def _terminate(signum: int, frame: Optional[FrameType]) -> NoReturn:
    raise _Terminated


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("maxsim", description="Collections of maxsimd from Python.")
    parser.add_argument("--version", action="version", version=f"maxsim {maxsim.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    import_command.add_parser(commands)
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the program with `arguments` (default: those of the process). Returns its exit code."""
    parsed = make_parser().parse_args(arguments)
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        code: int = parsed.run(parsed)
        return code
    except (KeyboardInterrupt, _Terminated) as error:
        print(printable(f"maxsim {parsed.command}: interrupted, {parsed.outcome}"), file=sys.stderr)
        return 128 + (signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
    except (ValueError, OSError, MemoryError) as error:
        print(printable(f"maxsim {parsed.command}: {one_line(error)}"), file=sys.stderr)
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)


def one_line(error: BaseException) -> str:
    """Returns the message of `error` in one line."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
