"""Simulates a router and groups of replicas with their queues, for simulate.py.

A request is a call to every group, and is answered when all groups have answered. The router's rules are those of
docs/internals/cluster.md and server/cluster. It asks the replica with the fewest calls in flight. If a call takes
longer than the group's 95th percentile, it also asks a second replica, for at most a tenth of all calls. The first
answer wins, and the other attempt is cancelled. A replica is ejected if it fails three times in a row, or if others
overtake it after it has not answered any call for ten times that percentile. An ejection lasts a second, and the next
one twice as long. The calls of a lost replica go to another replica immediately. Calls that wait for an ejected
replica, or for one that does not answer polls, go to another one within a tenth of a second. Times are in
microseconds. The network and the router take no time. Needs only Python.
"""

from __future__ import annotations

import collections
import dataclasses
import heapq
import math
import random
from typing import Any

from service_times import ServiceTimes

HEDGE_SHARE = 0.95
CALLS_A_HEDGE, MOST_HEDGES_SAVED = 10, 10  # a tenth of calls, and a short burst
# The 95th percentile of a group's answers is computed from the last MIN_ANSWERS to WINDOW answers, and again after each
# ANSWERS_A_TURN answers.
MIN_ANSWERS, WINDOW, ANSWERS_A_TURN = 20, 1024, 64
MAX_FAILURES, MIN_EJECTION_US, MAX_EJECTION_US = 3, 1e6, 30e6
POLL_US = 1e6
LEAST_SILENCE_US, SILENCE_PERCENTILES, LOOK_US = 100e3, 10, 100e3
# Penalties when a replica is chosen. They outweigh any number of calls in flight.
POLL_FAILED, EJECTED = 1 << 40, 1 << 41
SLOW_FACTOR = 4
FAULTS = ("none", "slow", "paused", "dead")
# none: the router never asks a second replica. hedge-eject (the router's rule): it asks a second replica, and ejects
# a silent replica that was overtaken three times in a row, like one that fails. hedge: it asks a second replica, but
# a replica that was overtaken is not ejected.
POLICIES = ("none", "hedge-eject", "hedge")


@dataclasses.dataclass(frozen=True)
class Setting:
    """A simulation. `load` is the offered load as a share of the replicas' capacity, without hedges. `policy` is one
    of POLICIES. `fault` is the fault of the first replica of the first group. slow: it is SLOW_FACTOR times as slow
    all the time. paused and dead: from a quarter to three quarters of the run, it stands still, or refuses
    everything."""

    times: ServiceTimes
    fan_out: int
    load: float
    policy: str = "hedge-eject"
    fault: str = "none"
    replicas: int = 3
    requests: int = 2500
    warm_up: float = 0.1  # the share of requests at the start that are not counted


@dataclasses.dataclass
class Outcome:
    """Latencies in microseconds of the counted requests, and the numbers of events for all requests, including the
    warm-up."""

    latencies: list[float]
    requests: int = 0
    answers: int = 0
    calls: int = 0
    hedges: int = 0
    retries: int = 0
    ejections: int = 0
    hedges_of_groups: list[int] = dataclasses.field(default_factory=list)


class Request:
    __slots__ = ("begin", "is_counted", "missing")

    def __init__(self, begin: float, is_counted: bool, missing: int) -> None:
        self.begin, self.is_counted, self.missing = begin, is_counted, missing


class Call:
    """The part of a request that goes to one group."""

    __slots__ = ("attempts", "begin", "group", "is_answered", "request")

    def __init__(self, request: Request, group: Group, begin: float) -> None:
        self.request, self.group, self.begin = request, group, begin
        self.attempts: list[Attempt] = []
        self.is_answered = False


class Attempt:
    """A call at one replica: in its queue, or in one of its places until `end`."""

    __slots__ = ("call", "certain_end", "has_ended", "is_cancelled", "replica", "version")

    def __init__(self, call: Call, replica: Replica) -> None:
        self.call, self.replica = call, replica
        self.is_cancelled = self.has_ended = False
        self.version = 0  # a pause changes `end`, and makes events of earlier versions invalid
        self.certain_end = math.inf  # set when the attempt is in a place, if its replica will not stand still


class Replica:
    __slots__ = (
        "busy",
        "ejected_until",
        "ejection",
        "failures",
        "in_flight",
        "last_answer",
        "poll_failed",
        "queue",
        "running",
        "slowness",
        "state",
    )

    def __init__(self) -> None:
        self.queue: collections.deque[Attempt] = collections.deque()
        self.running: dict[Attempt, float] = {}  # attempts, with their ends
        self.busy = self.in_flight = self.failures = 0
        self.ejected_until = self.ejection = self.last_answer = 0.0
        self.slowness = 1.0
        self.state = "ready"  # or "paused" or "dead"
        self.poll_failed = False


class Group:
    __slots__ = ("answers", "delay", "hedges", "replicas", "saved", "turn", "window")

    def __init__(self, replicas: int) -> None:
        self.replicas = [Replica() for _ in range(replicas)]
        self.window: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self.delay: float | None = None
        self.answers = self.hedges = self.turn = 0
        self.saved = CALLS_A_HEDGE  # in tenths of a hedge


class World:
    """One run. The same setting and seed give the same outcome."""

    def __init__(self, setting: Setting, seed: int) -> None:
        if setting.fault not in FAULTS:
            raise ValueError(f"fault is {setting.fault!r}; it is one of {', '.join(FAULTS)}")
        if setting.policy not in POLICIES:
            raise ValueError(f"policy is {setting.policy!r}; it is one of {', '.join(POLICIES)}")
        if not 0 < setting.load < 1:
            raise ValueError(f"load is {setting.load}; it is above 0 and below 1")
        self.setting = setting
        # Requests arrive at the same times under all policies.
        self._random = random.Random(f"times {seed}")
        self._arrivals = random.Random(f"arrivals {seed}")
        self._hedges = setting.policy != "none"
        self._groups = [Group(setting.replicas) for _ in range(setting.fan_out)]
        self._events: list[tuple[float, int, Any, tuple[Any, ...]]] = []
        self._num_events = 0
        self._now = self._failed_at = 0.0
        self._stopping: Replica | None = None  # the replica that will be paused or lost
        warm_up = int(setting.requests * setting.warm_up)
        self._to_come = setting.requests + warm_up
        self._not_counted = warm_up
        self._rate = setting.load * setting.replicas * setting.times.places / setting.times.mean()
        self.outcome = Outcome(latencies=[])

    def run(self) -> Outcome:
        """Runs until every request has its answer."""
        duration = self._to_come / self._rate
        faulty = self._groups[0].replicas[0]
        if self.setting.fault == "slow":
            faulty.slowness = SLOW_FACTOR
        elif self.setting.fault != "none":
            self._stopping = faulty
            self._at(duration / 4, self._fail, faulty)
            self._at(duration * 3 / 4, self._recover, faulty)
            self._at(self._random.uniform(0, POLL_US), self._poll, faulty)
        self._at(0.0, self._arrive)
        while self._events and (self._to_come > 0 or self.outcome.answers < self.outcome.requests):
            self._now, _, what, arguments = heapq.heappop(self._events)
            what(*arguments)
        self.outcome.hedges_of_groups = [group.hedges for group in self._groups]
        return self.outcome

    def _at(self, time: float, what: Any, *arguments: Any) -> None:
        self._num_events += 1  # Simultaneous events happen in the order in which they were created.
        heapq.heappush(self._events, (time, self._num_events, what, arguments))

    # The router.

    def _arrive(self) -> None:
        request = Request(self._now, self._not_counted <= 0, len(self._groups))
        self._not_counted -= 1
        self._to_come -= 1
        self.outcome.requests += 1
        if self._to_come > 0:
            self._at(self._now + self._arrivals.expovariate(self._rate), self._arrive)
        for group in self._groups:
            call = Call(request, group, self._now)
            self.outcome.calls += 1
            group.saved = min(group.saved + 1, CALLS_A_HEDGE * MOST_HEDGES_SAVED)
            self._try(call)
            if self._hedges and group.delay is not None:
                due = self._now + group.delay
                # Most calls certainly end before `due`, and need no event.
                if call.attempts[0].certain_end > due:
                    self._at(due, self._hedge, call)

    def _choose(self, call: Call) -> Replica | None:
        group = call.group
        tried = [attempt.replica for attempt in call.attempts]
        group.turn = (group.turn + 1) % len(group.replicas)
        best, least = None, math.inf
        for replica in group.replicas[group.turn :] + group.replicas[: group.turn]:
            if replica in tried:
                continue
            cost = replica.in_flight
            if replica.poll_failed:
                cost += POLL_FAILED
            if replica.ejected_until > self._now:
                cost += EJECTED
            if cost < least:
                best, least = replica, cost
        return best

    def _try(self, call: Call) -> bool:
        """Asks another replica. Returns False if all replicas were asked."""
        replica = self._choose(call)
        if replica is None:
            return False
        attempt = Attempt(call, replica)
        call.attempts.append(attempt)
        replica.in_flight += 1
        if replica.state == "dead":
            self._refuse(attempt)
        else:
            replica.queue.append(attempt)
            self._begin(replica)
        return True

    def _hedge(self, call: Call) -> None:
        group = call.group
        if call.is_answered or len(call.attempts) == len(group.replicas):
            return
        waits_for = [attempt for attempt in call.attempts if not attempt.has_ended]
        nobody_answers = all(
            attempt.replica.poll_failed or attempt.replica.ejected_until > self._now for attempt in waits_for
        )
        if nobody_answers or group.saved >= CALLS_A_HEDGE:
            if not nobody_answers:
                group.saved -= CALLS_A_HEDGE
                group.hedges += 1
            self.outcome.hedges += 1
            self._try(call)
        due = self._now + LOOK_US
        if all(attempt.certain_end > due for attempt in call.attempts if not attempt.has_ended):
            self._at(due, self._hedge, call)

    def _refuse(self, attempt: Attempt) -> None:
        """Ends an attempt at a lost replica. Its call goes to another one."""
        attempt.has_ended = True
        attempt.replica.in_flight -= 1
        self._count_failure(attempt.replica)
        call = attempt.call
        if call.is_answered:
            return
        self.outcome.retries += 1
        if not self._try(call) and all(attempt.has_ended for attempt in call.attempts):
            # All replicas have failed. A real client would get an error. With one fault at a time, this cannot
            # happen.
            raise RuntimeError("no replica is left")

    def _count_failure(self, replica: Replica) -> None:
        replica.failures += 1
        if replica.failures < MAX_FAILURES or self._now < replica.ejected_until:
            return
        replica.ejection = min(max(2 * replica.ejection, MIN_EJECTION_US), MAX_EJECTION_US)
        replica.ejected_until = self._now + replica.ejection
        self.outcome.ejections += 1

    def _answer(self, attempt: Attempt) -> None:
        call, replica = attempt.call, attempt.replica
        replica.failures, replica.ejection, replica.ejected_until = 0, 0.0, 0.0
        replica.last_answer = self._now
        call.is_answered = True
        was_asked_before = True
        for other in call.attempts:
            if other is attempt:
                was_asked_before = False
            elif not other.has_ended:
                silence = max(LEAST_SILENCE_US, SILENCE_PERCENTILES * (call.group.delay or 0))
                is_silent = self._now - other.replica.last_answer >= silence
                if was_asked_before and is_silent and self.setting.policy == "hedge-eject":  # It has been overtaken.
                    self._count_failure(other.replica)
                self._cancel(other)
        self._note(call.group, self._now - call.begin)
        request = call.request
        request.missing -= 1
        if request.missing == 0:
            self.outcome.answers += 1
            if request.is_counted:
                self.outcome.latencies.append(self._now - request.begin)

    def _note(self, group: Group, latency: float) -> None:
        """Adds the latency of an answer to the group's window, from which the delay of its hedges is computed."""
        group.window.append(latency)
        group.answers += 1
        if not self._hedges or group.answers < MIN_ANSWERS:
            return
        if group.delay is None or group.answers % ANSWERS_A_TURN == 0:
            ordered = sorted(group.window)
            group.delay = bucket_limit(ordered[min(int(HEDGE_SHARE * len(ordered)), len(ordered) - 1)])

    def _poll(self, replica: Replica) -> None:
        replica.poll_failed = replica.state != "ready"
        self._at(self._now + POLL_US, self._poll, replica)

    # The replicas.

    def _begin(self, replica: Replica) -> None:
        """Fills the free places of a replica from its queue."""
        while replica.queue and replica.busy < self.setting.times.places and replica.state == "ready":
            attempt = replica.queue.popleft()
            if attempt.is_cancelled:
                continue
            replica.busy += 1
            end = self._now + replica.slowness * self.setting.times.quantile(self._random.random())
            if replica is not self._stopping:
                attempt.certain_end = end
            self._end_at(attempt, end)

    def _end_at(self, attempt: Attempt, end: float) -> None:
        attempt.version += 1
        attempt.replica.running[attempt] = end
        self._at(end, self._end, attempt, attempt.version)

    def _end(self, attempt: Attempt, version: int) -> None:
        if version != attempt.version:
            return
        replica = attempt.replica
        replica.busy -= 1
        del replica.running[attempt]
        if not attempt.is_cancelled:
            attempt.has_ended = True
            replica.in_flight -= 1
            self._answer(attempt)
        self._begin(replica)

    def _cancel(self, attempt: Attempt) -> None:
        """Cancels an attempt. An attempt that has begun still occupies its place until its end, because a running batch
        cannot be interrupted."""
        attempt.has_ended = attempt.is_cancelled = True
        attempt.replica.in_flight -= 1

    def _fail(self, replica: Replica) -> None:
        replica.state = self.setting.fault
        self._failed_at = self._now
        held = [*replica.running, *(attempt for attempt in replica.queue if not attempt.is_cancelled)]
        for attempt in held:
            attempt.version += 1  # it does not end while the replica stands still
        if self.setting.fault == "paused":
            return
        cancelled = [attempt for attempt in held if attempt.is_cancelled]
        replica.queue.clear()
        replica.running.clear()
        replica.busy = 0
        for attempt in held:
            if attempt not in cancelled:
                attempt.is_cancelled = True
                self._refuse(attempt)

    def _recover(self, replica: Replica) -> None:
        replica.state = "ready"
        for attempt, end in list(replica.running.items()):
            self._end_at(attempt, end + self._now - self._failed_at)
        self._begin(replica)


def bucket_limit(us: float) -> float:
    """Returns the upper limit of the bucket that server/cluster/observed/latency_window.h counts a time in: buckets grow by an
    eighth."""
    whole = int(us)
    if whole < 8:
        return whole + 1
    exponent = whole.bit_length() - 4
    return float(((whole >> exponent) + 1) << exponent)
