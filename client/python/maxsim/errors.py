"""The exceptions of failed calls: one class per status code. All are subclasses of MaxsimError and grpc.RpcError."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any

import grpc

from . import status_details
from .advice import add_advice, name_timeout
from .connection import Connection


# The reason of an error of a delete that has deleted some documents.
PARTLY_DELETED = "PARTLY_DELETED"


class MaxsimError(grpc.RpcError):
    """A call that failed.

    `message` is the server's. If the server was not reached or did not answer in time, `message` says so, with the
    server's address and advice or the timeout, and gRPC's own error is the `__cause__`. `field` is the path of the
    wrong field in the request ("queries[3].weights"). `reason` is a fixed word for the kind of error
    ("LIMIT_EXCEEDED"). `limit` is the largest value that the server accepts, and `limit_key` the key of its
    configuration that sets the limit ("limits.max_top_k"). `num_deleted` is the number of documents that a delete has
    deleted before it failed. Each of these five is None if the error does not have it.
    `retry_after` is the number of seconds after which the server suggests another attempt, or None. `code()` and
    `details()` are as in gRPC's errors. `pushback_ms` is the value of gRPC's trailer that limits retries, as text."""

    status_code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(
        self,
        message: str,
        *,
        status_code: grpc.StatusCode | None = None,
        field: str | None = None,
        retry_after: float | None = None,
        pushback_ms: str | None = None,
        problem: str | None = None,
        reason: str | None = None,
        limit: int | None = None,
        limit_key: str | None = None,
        num_deleted: int | None = None,
    ) -> None:
        """`problem` is the part of the message that follows "FIELD: "."""
        super().__init__(message)
        self.message = message
        self.field = field
        self.retry_after = retry_after
        self.pushback_ms = pushback_ms
        self.reason = reason
        self.limit = limit
        self.limit_key = limit_key
        self.num_deleted = num_deleted
        self._problem = problem
        if status_code is not None:
            self.status_code = status_code

    def code(self) -> grpc.StatusCode:
        return self.status_code

    def details(self) -> str:
        return self.message

    def __str__(self) -> str:
        return f"{self.status_code.name}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self.message, self._details())

    def _details(self) -> dict[str, Any]:
        """Returns the keyword arguments of the constructor."""
        names = ("status_code", "field", "retry_after", "pushback_ms", "reason", "limit", "limit_key", "num_deleted")
        return {**{name: getattr(self, name) for name in names}, "problem": self._problem}

    def with_field(self, field: str) -> MaxsimError:
        """Returns a copy of the error with another field. If the server sent a description of the problem without the
        field, the message is the new field and this description; otherwise the message stays."""
        message = self.message if self._problem is None else f"{field}: {self._problem}"
        return _restore(type(self), message, {**self._details(), "field": field})

    def with_num_deleted(self, num_deleted: int) -> MaxsimError:
        """Returns a copy of the error of a call that had deleted documents before it failed. The copy's reason is
        PARTLY_DELETED. It has no limit, because the limit belongs to the previous reason."""
        details = {**self._details(), "reason": PARTLY_DELETED, "num_deleted": num_deleted}
        details.update(limit=None, limit_key=None)
        return _restore(type(self), self.message, details)


def _restore(kind: type[MaxsimError], message: str, details: dict[str, Any]) -> MaxsimError:
    return kind(message, **details)


class InvalidArgument(MaxsimError):
    """A field of the request is wrong; `field` names it."""

    status_code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(MaxsimError):
    """No such collection, or with missing_policy="fail" an unknown id."""

    status_code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(MaxsimError):
    """A collection of this name is already loaded, or the folder to create already exists."""

    status_code = grpc.StatusCode.ALREADY_EXISTS


class PermissionDenied(MaxsimError):
    """The token does not permit the call (for example, a token for searching only does not permit writing), or the
    path is under none of the server's roots."""

    status_code = grpc.StatusCode.PERMISSION_DENIED


class Unauthenticated(MaxsimError):
    """The server needs a token, and the call has none or a wrong one."""

    status_code = grpc.StatusCode.UNAUTHENTICATED


class ResourceExhausted(MaxsimError):
    """With `retry_after`, the server is busy, or its memory for written documents is full; try again after that time.
    Without it, the request is too large for this server."""

    status_code = grpc.StatusCode.RESOURCE_EXHAUSTED


class FailedPrecondition(MaxsimError):
    """The server has no encoder for a text, or its encoder is not the one that made the collection. Or the call writes
    to a collection that is not live."""

    status_code = grpc.StatusCode.FAILED_PRECONDITION


class Unavailable(MaxsimError):
    """The server was not reached, is starting or stopping, or has lost its device."""

    status_code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(MaxsimError):
    """The timeout has passed."""

    status_code = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(MaxsimError):
    """The call was cancelled."""

    status_code = grpc.StatusCode.CANCELLED


class DataLoss(MaxsimError):
    """A file of the collection is damaged."""

    status_code = grpc.StatusCode.DATA_LOSS


class Unimplemented(MaxsimError):
    """The server does not have this call."""

    status_code = grpc.StatusCode.UNIMPLEMENTED


class Internal(MaxsimError):
    """A fault of the server, not of the request."""

    status_code = grpc.StatusCode.INTERNAL


_CLASSES: dict[grpc.StatusCode, type[MaxsimError]] = {
    kind.status_code: kind
    for kind in (
        *(InvalidArgument, NotFound, AlreadyExists, PermissionDenied, Unauthenticated, ResourceExhausted),
        *(FailedPrecondition, Unavailable, DeadlineExceeded, Cancelled, DataLoss, Unimplemented, Internal),
    )
}
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def make_error(
    code: grpc.StatusCode,
    message: str,
    *,
    metadata: Iterable[tuple[str, str | bytes]] | None = None,
    retry_after: float | None = None,
) -> MaxsimError:
    """Returns the error for a status code, with the details in the call's trailing metadata."""
    details = status_details.read_metadata(metadata)
    if retry_after is not None:
        details = dataclasses.replace(details, retry_after=retry_after)
    return _CLASSES.get(code, MaxsimError)(message, status_code=code, **vars(details))


def with_names(error: MaxsimError, renamed: Callable[[str], str]) -> MaxsimError:
    """Returns the error with `renamed(error.field)` as its field, or the error itself if it has no field."""
    return error if error.field is None else error.with_field(renamed(error.field))


def shift_indices(error: MaxsimError, name: str, num_before: int) -> MaxsimError:
    """Counts the indices of the list `name` in the error's field from the first item of the whole call. The request
    held only the items after the first `num_before`: with 64 of them, "queries[3]" becomes "queries[67]"."""
    index = re.compile(rf"(?<=\b{name}\[)\d+(?=\])")
    return with_names(error, lambda text: index.sub(lambda found: str(int(found[0]) + num_before), text))


def from_rpc_error(error: Any, made_of: Connection, seconds: float | None) -> MaxsimError:
    """Returns the MaxsimError for an error of grpc or grpc.aio. `seconds` is the call's timeout (None: no limit)."""
    message = error.details() or ""
    if error.code() == grpc.StatusCode.UNAVAILABLE:
        message = add_advice(message, made_of.target, made_of.credentials is not None)
    elif error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        message = name_timeout(message, made_of.target, seconds)
    return make_error(error.code(), message, metadata=error.trailing_metadata())


def from_code_number(number: int, message: str, retry_after_ms: int = 0, details: bytes = b"") -> MaxsimError:
    """Returns the MaxsimError for the google.rpc.Code in an answer of a stream. `details` is a serialised
    google.rpc.Status."""
    code = _CODES.get(number, grpc.StatusCode.UNKNOWN)
    metadata = [(status_details.DETAILS_KEY, details)]
    return make_error(
        code, message, metadata=metadata, retry_after=retry_after_ms / 1000 if retry_after_ms else None
    )
