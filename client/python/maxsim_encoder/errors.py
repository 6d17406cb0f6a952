"""Errors of a request, as the client sees them."""

from __future__ import annotations

import json
from typing import Dict, Optional

# The number of characters of a client's value that an error repeats.
_SHOWN_CHARACTERS = 60


class RequestError(Exception):
    """An error answer: an HTTP status, a code word for programs, and a sentence that tells people the field, its
    value and the limit."""

    def __init__(self, status: int, code: str, message: str, headers: Optional[Dict[str, str]] = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers or {}

    def body(self) -> bytes:
        """Returns the JSON that clients of OpenAI's API read. `type` says whether the client or the server is at
        fault."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "server_error"
        if self.status == 429:
            kind = "rate_limit_error"
        error = {"message": str(self), "type": kind, "code": self.code}
        return json.dumps({"error": error}, ensure_ascii=False).encode("utf-8", "replace")


def shown(value: object) -> str:
    """Formats a value for an error: as JSON if possible, and shortened if it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
