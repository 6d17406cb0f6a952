"""An MCP server over stdio, through which an assistant searches the collections of a maxsimd."""

from __future__ import annotations

from maxsim import __version__ as __version__
