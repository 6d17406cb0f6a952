"""Matches the answers of a stream to its requests, and puts them in order. Uses no connection."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping

from . import arguments, errors
from .ranking import Ranking, read_response
from .requests import Request
from .v1 import rerank_pb2 as pb

DEFAULT_IN_FLIGHT = 32


def check_stream_arguments(
    requests: object, ordered: object, max_in_flight: object, timeout: object
) -> float | None:
    """Returns the timeout. Raises ValueError for an argument of rerank_stream that is wrong."""
    if isinstance(requests, (str, bytes, Mapping, Request)) or not isinstance(requests, (Iterable, AsyncIterable)):
        raise ValueError(f"requests is {arguments.shown(requests)}; must be an iterable of maxsim.Request")
    arguments.flag(ordered, "ordered")
    arguments.whole_number(max_in_flight, "max_in_flight", 1)
    return arguments.timeout(timeout)


@dataclasses.dataclass(frozen=True)
class StreamAnswer:
    """The answer to one request of a stream: its ranking, or its error, which does not affect other requests.

    `index` counts the stream's requests from 0."""

    index: int
    request: Request
    error: errors.MaxsimError | None
    ranking_or_none: Ranking | None

    @property
    def ranking(self) -> Ranking:
        """The ranking. If the request failed, raises its error."""
        if self.ranking_or_none is None:
            raise self.error or errors.Internal("the answer holds no ranking")
        return self.ranking_or_none


class OpenRequests:
    """The requests of one stream that have no answer yet. On the wire, a request is named by its index, followed by
    its request_id."""

    def __init__(self, ordered: bool) -> None:
        self._ordered = ordered
        self._sent: dict[int, Request] = {}
        self._waiting: dict[int, StreamAnswer] = {}  # answers that wait for the answers to earlier requests
        self._num_sent = 0
        self._next = 0
        self._complete = False

    def complete(self) -> None:
        """Says that no more requests will follow."""
        self._complete = True

    def message(self, request: Request) -> pb.RerankRequest:
        """Returns the message of the next request. If Request.to_message raises ValueError, raises it with the
        request's index in front."""
        index = self._num_sent
        if not isinstance(request, Request):
            raise ValueError(f"requests[{index}] is {arguments.shown(request)}; must be a maxsim.Request")
        try:
            message = request.to_message()
        except ValueError as error:
            raise ValueError(f"requests[{index}]: {error}") from error
        message.request_id = f"{index} {request.request_id}".rstrip()
        self._sent[index] = request
        self._num_sent += 1
        return message

    def answers(self, response: pb.RerankStreamResponse) -> Iterator[StreamAnswer]:
        """Takes an answer, and yields the answers that can be passed on: this one or, in ordered streams, all up to
        the next gap."""
        answer = self._answer(response)
        if not self._ordered:
            yield answer
            return
        self._waiting[answer.index] = answer
        while self._next in self._waiting:
            self._next += 1
            yield self._waiting.pop(self._next - 1)

    def _answer(self, response: pb.RerankStreamResponse) -> StreamAnswer:
        name = response.request_id.split(" ", 1)[0]
        request = self._sent.pop(int(name), None) if name.isdecimal() else None
        if request is None:
            raise errors.Internal(f"the server answered {response.request_id!r}, which was not asked")
        if response.code:
            error = errors.from_code_number(
                response.code, response.message, response.retry_after_ms, response.status_details
            )
            return StreamAnswer(int(name), request, error, None)
        rankings = read_response(response.response)
        return StreamAnswer(int(name), request, None, rankings[0] if rankings else None)

    def check_ended(self) -> None:
        """Raises Unavailable if the server has ended the stream without an error, but requests have no answer."""
        if self._sent or not self._complete:
            raise errors.Unavailable("the stream ended before all of its requests were answered")
