"""Decides whether and when a failed call is repeated. Uses neither a clock nor a connection."""

from __future__ import annotations

import dataclasses
import random

import grpc

from . import arguments
from .errors import MaxsimError


@dataclasses.dataclass(frozen=True)
class Retry:
    """How often a call that may be repeated is tried, and how long the client waits between attempts.

    UNAVAILABLE is retried. RESOURCE_EXHAUSTED is retried if `resource_exhausted` is set and the server says when to
    try again; without that, it means "too large". The wait before an attempt is initial_backoff * multiplier ** n
    seconds, at most max_backoff, varied at random by +-jitter, and never shorter than the server asks for. An attempt
    that could not begin within the call's timeout is not made. `max_attempts` includes the first attempt. The default
    of 7 covers about 3 seconds, which is enough for a server to restart, and short enough to report that there is
    none."""

    max_attempts: int = 7
    initial_backoff: float = 0.05
    max_backoff: float = 2.0
    multiplier: float = 2.0
    jitter: float = 0.2
    resource_exhausted: bool = False

    def __post_init__(self) -> None:
        arguments.whole_number(self.max_attempts, "max_attempts", 1)
        arguments.seconds(self.initial_backoff, "initial_backoff")
        arguments.seconds(self.max_backoff, "max_backoff")
        if self.initial_backoff > self.max_backoff:
            raise ValueError(
                f"initial_backoff is {self.initial_backoff}, max_backoff {self.max_backoff}; "
                "the first must not be more than the second"
            )
        if arguments.real_number(self.multiplier, "multiplier", "a number of 1 or more") < 1:
            raise ValueError(f"multiplier is {self.multiplier}; must be a number of 1 or more")
        if not 0 <= arguments.real_number(self.jitter, "jitter", "a number from 0 to 1") <= 1:
            raise ValueError(f"jitter is {self.jitter}; must be a number from 0 to 1")
        arguments.flag(self.resource_exhausted, "resource_exhausted")


NEVER = Retry(max_attempts=1)


def check_retry(retry: object) -> Retry:
    """Returns a client's argument `retry`. ValueError if it is not a Retry."""
    if isinstance(retry, Retry):
        return retry
    raise ValueError(f"retry is {arguments.shown(retry)}; must be a maxsim.Retry, Retry(max_attempts=1) for none")


class Attempts:
    """Counts the attempts of one call, which must end at `deadline`, a time of time.monotonic()."""

    def __init__(self, retry: Retry, deadline: float) -> None:
        self._retry = retry
        self._deadline = deadline
        self._made = 0

    def remaining(self, now: float) -> float:
        """Returns the seconds that an attempt may take if it begins now."""
        return max(self._deadline - now, 0.0)

    def next_delay(self, error: MaxsimError, now: float) -> float | None:
        """Returns how many seconds to wait until the next attempt, or None if the error is final. Call it after each
        attempt."""
        self._made += 1
        if self._made >= self._retry.max_attempts or not self._is_worth_it(error):
            return None
        if error.pushback_ms is not None:
            # gRPC's proposal A6: the trailer replaces every other delay. A value that is not a number forbids another
            # attempt.
            if not error.pushback_ms.isascii() or not error.pushback_ms.isdigit():
                return None
            delay = int(error.pushback_ms) / 1000
        else:
            delay = self._retry.initial_backoff * self._retry.multiplier ** min(self._made - 1, 64)
            delay = min(delay, self._retry.max_backoff) * (1 + self._retry.jitter * random.uniform(-1, 1))
            delay = max(delay, error.retry_after or 0)
        return delay if now + delay < self._deadline else None

    def _is_worth_it(self, error: MaxsimError) -> bool:
        if error.code() == grpc.StatusCode.UNAVAILABLE:
            return True
        asked_back = error.retry_after is not None or error.pushback_ms is not None
        return error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and self._retry.resource_exhausted and asked_back
