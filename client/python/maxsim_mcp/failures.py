"""The errors of tools: what was wrong, as text for the model and as data for programs."""

from __future__ import annotations

import re
from typing import Any

from maxsim import errors

# Paths of fields in the server's request, and the arguments of tools that they come from.
_ARGUMENTS = (
    (re.compile(r"^queries\[0\](\.text)?$"), "query"),
    (re.compile(r"^candidates(\..*)?$"), "id"),
    (re.compile(r"^filter_text$"), "filter"),
)


class ToolError(Exception):
    """A call that failed. `field` is the wrong argument of the tool, or None. `reason` is a fixed word, such as
    LIMIT_EXCEEDED, or None. `details` are further values, such as `limit`."""

    def __init__(
        self, code: str, message: str, field: str | None = None, reason: str | None = None, **details: Any
    ) -> None:
        super().__init__(message)
        values = {"code": code, "message": message, "field": field, "reason": reason, **details}
        self.details = {name: value for name, value in values.items() if value is not None}

    def text(self) -> str:
        reason = self.details.get("reason")
        return f"{self.details['code']}: {self}" + (f" (reason {reason})" if reason else "")


def wrong_argument(field: str, problem: str, limit: int | None = None) -> ToolError:
    """Returns the error of an argument that the tool itself refuses. `limit` is the largest accepted value."""
    reason = "INVALID_FIELD" if limit is None else "LIMIT_EXCEEDED"
    return ToolError("INVALID_ARGUMENT", f"{field}: {problem}", field, reason, limit=limit)


def from_server(error: errors.MaxsimError) -> ToolError:
    """Returns the error of a call that the server refused, or that did not reach it. Its field is the argument of the
    tool."""
    named = errors.with_names(error, _argument)
    field, reason = named.field, named.reason
    if field is None and isinstance(named, errors.NotFound):
        field, reason = "collection", "INVALID_FIELD"  # The server names no field if it has no such collection.
    return ToolError(
        named.code().name,
        named.message,
        field,
        reason,
        limit=named.limit,
        limit_key=named.limit_key,
        retry_after_s=named.retry_after,
    )


def _argument(field: str) -> str:
    return next((name for path, name in _ARGUMENTS if path.match(field)), field)
