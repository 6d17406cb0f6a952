"""Finds out how a streaming call of grpc.aio has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import grpc
import grpc.aio

_ResultT = TypeVar("_ResultT")

# The message of grpc.aio's error if a write fails because the call has ended.
_WRITE_FAILED = "Internal error from Core"

# The longest wait for a status. A status that is on its way arrives without delay; the limit is for a lost
# connection.
_MAX_WAIT_S = 5.0


class CallEnd:
    """Keeps the status with which the server ends a call.

    If a write fails at that moment, a call of grpc.aio forgets this status and reports INTERNAL instead. Create this
    object before the first write, in the call's event loop."""

    def __init__(self, call: Any) -> None:
        self._error: grpc.aio.AioRpcError | None = None
        self._arrived = asyncio.Event()
        # gRPC calls this for each status that the call gets.
        call.add_done_callback(self._keep)

    def _keep(self, call: Any) -> None:
        if _result(call.details()) == _WRITE_FAILED and _result(call.code()) is grpc.StatusCode.INTERNAL:
            return
        if self._arrived.is_set():
            return
        if _result(call.code()) is not grpc.StatusCode.OK:
            self._error = grpc.aio.AioRpcError(
                _result(call.code()),
                _result(call.initial_metadata()),
                _result(call.trailing_metadata()),
                _result(call.details()),
                _result(call.debug_error_string()),
            )
        self._arrived.set()

    async def explain(self, error: grpc.RpcError) -> grpc.RpcError | None:
        """Returns the server's error for an error that the call raised. Returns None if the server ended the call
        without an error."""
        if not isinstance(error, grpc.aio.AioRpcError) or error.details() != _WRITE_FAILED:
            return error
        try:
            await asyncio.wait_for(self._arrived.wait(), _MAX_WAIT_S)
        except asyncio.TimeoutError:
            return error
        return self._error


def _result(coroutine: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    """Returns the result of a coroutine that never suspends. A call's coroutines do not suspend once the call has its
    status, because then all its details are known."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: _ResultT = end.value
        return result
    raise AssertionError("the call has no status yet")
