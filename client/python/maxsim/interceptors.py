"""Adds the client's metadata to every call of a channel, whichever stub makes the call."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio


class _CallDetails(grpc.ClientCallDetails):
    """The details of a call, with other metadata."""

    def __init__(self, details: grpc.ClientCallDetails, metadata: tuple[tuple[str, str | bytes], ...]) -> None:
        self.method, self.timeout, self.metadata = details.method, details.timeout, metadata
        self.credentials, self.wait_for_ready = details.credentials, details.wait_for_ready
        self.compression = details.compression


class _Pairs:
    """Metadata that a call gets, unless it has the key already."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def completed(self, metadata: Any) -> tuple[tuple[str, str | bytes], ...]:
        given = [*(metadata or ())]
        present = {key for key, _ in given}
        return (*given, *(pair for pair in self._pairs if pair[0] not in present))


class CallMetadata(
    _Pairs,
    grpc.UnaryUnaryClientInterceptor,
    grpc.UnaryStreamClientInterceptor,
    grpc.StreamUnaryClientInterceptor,
    grpc.StreamStreamClientInterceptor,
):
    """The interceptor for a channel of grpc."""

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return self._go_on(continuation, client_call_details, request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return self._go_on(continuation, client_call_details, request)

    def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return self._go_on(continuation, client_call_details, request_iterator)

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return self._go_on(continuation, client_call_details, request_iterator)

    def _go_on(self, continuation: Any, details: Any, asked: Any) -> Any:
        return continuation(_CallDetails(details, self.completed(details.metadata)), asked)


class _AsyncPairs(_Pairs):
    async def go_on(self, continuation: Any, details: Any, asked: Any) -> Any:
        # The fields of gRPC's tuple differ between gRPC's releases.
        metadata = grpc.aio.Metadata(*self.completed(details.metadata))
        return await continuation(details._replace(metadata=metadata), asked)


# grpc.aio uses an interceptor for one kind of call only, so each kind needs a class.
class _UnaryUnary(_AsyncPairs, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await self.go_on(continuation, client_call_details, request)


class _UnaryStream(_AsyncPairs, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return await self.go_on(continuation, client_call_details, request)


class _StreamUnary(_AsyncPairs, grpc.aio.StreamUnaryClientInterceptor):
    async def intercept_stream_unary(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await self.go_on(continuation, client_call_details, request_iterator)


class _StreamStream(_AsyncPairs, grpc.aio.StreamStreamClientInterceptor):
    async def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        return await self.go_on(continuation, client_call_details, request_iterator)


def async_call_metadata(pairs: list[tuple[str, str]]) -> list[grpc.aio.ClientInterceptor]:
    """Returns the interceptors for a channel of grpc.aio."""
    return [_UnaryUnary(pairs), _UnaryStream(pairs), _StreamUnary(pairs), _StreamStream(pairs)]
