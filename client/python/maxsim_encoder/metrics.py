"""Counters, gauges and histograms in Prometheus' text format."""

from __future__ import annotations

import bisect
import threading
from typing import Callable, Dict, List, Sequence, Tuple

# Buckets of seconds per request: a query takes 10 ms with the demo model on one core, a batch of long documents
# seconds.
SECONDS_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TEXTS_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

Labels = Tuple[str, ...]


class Series:
    """One metric with all values of its labels. Thread-safe."""

    def __init__(self, name: str, kind: str, text: str, labels: Labels = ()) -> None:
        self.name = name
        self._head = f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
        self._labels = labels
        self._lock = threading.Lock()

    def _shown(self, values: Labels, more: str = "") -> str:
        pairs = [f'{label}="{value}"' for label, value in zip(self._labels, values)]
        pairs += [more] if more else []
        return "{" + ",".join(pairs) + "}" if pairs else ""

    def render(self) -> str:
        with self._lock:
            return self._head + "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> List[str]:
        raise NotImplementedError


class Counter(Series):
    """A number that grows."""

    def __init__(self, name: str, text: str, labels: Labels = ()) -> None:
        super().__init__(name, "counter", text, labels)
        self._values: Dict[Labels, int] = {} if labels else {(): 0}

    def add(self, values: Labels = (), amount: int = 1) -> None:
        with self._lock:
            self._values[values] = self._values.get(values, 0) + amount

    def value(self, values: Labels = ()) -> int:
        with self._lock:
            return self._values.get(values, 0)

    def _lines(self) -> List[str]:
        return [f"{self.name}{self._shown(values)} {value}" for values, value in sorted(self._values.items())]


class Gauge(Series):
    """A number that is computed whenever the metrics are read."""

    def __init__(self, name: str, text: str, read: Callable[[], float]) -> None:
        super().__init__(name, "gauge", text)
        self._read = read

    def _lines(self) -> List[str]:
        return [f"{self.name} {self._read():g}"]


class Histogram(Series):
    """Counts of observations in buckets with upper bounds, with their sum and count."""

    def __init__(self, name: str, text: str, bounds: Sequence[float], labels: Labels = ()) -> None:
        super().__init__(name, "histogram", text, labels)
        self._bounds = tuple(bounds)
        self._counts: Dict[Labels, List[int]] = {}
        self._sums: Dict[Labels, float] = {}
        if not labels:
            self._start(())

    def _start(self, values: Labels) -> None:
        self._counts.setdefault(values, [0] * (len(self._bounds) + 1))
        self._sums.setdefault(values, 0.0)

    def observe(self, value: float, values: Labels = ()) -> None:
        with self._lock:
            self._start(values)
            self._counts[values][bisect.bisect_left(self._bounds, value)] += 1
            self._sums[values] += value

    def _lines(self) -> List[str]:
        lines = []
        for values, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip([*map(repr, self._bounds), "+Inf"], counts):
                total += count
                label = f'le="{bound}"'
                lines.append(f"{self.name}_bucket{self._shown(values, label)} {total}")
            lines.append(f"{self.name}_sum{self._shown(values)} {self._sums[values]:.9g}")
            lines.append(f"{self.name}_count{self._shown(values)} {total}")
        return lines


class Metrics:
    """All metrics of the server. `queued_texts` and `loaded` are called whenever metrics are read."""

    def __init__(self, queued_texts: Callable[[], float], loaded: Callable[[], float]) -> None:
        self.requests = Counter("maxsim_encoder_requests_total", "Requests, by route and status.", ("route", "code"))
        self.seconds = Histogram(
            "maxsim_encoder_request_duration_seconds",
            "From a request's head until its answer is ready to be sent.",
            SECONDS_BUCKETS,
            ("route",),
        )
        self.batch_texts = Histogram(
            "maxsim_encoder_batch_texts", "Texts of one call of the model.", TEXTS_BUCKETS, ("kind",)
        )
        self.batch_seconds = Histogram(
            "maxsim_encoder_batch_duration_seconds", "Time of one call of the model.", SECONDS_BUCKETS, ("kind",)
        )
        self.tokens = Counter("maxsim_encoder_tokens_total", "Token vectors computed.", ("kind",))
        self.abandoned = Counter(
            "maxsim_encoder_abandoned_total", "Requests whose client went away, or whose time in the queue ended."
        )
        self.queue = Gauge("maxsim_encoder_queued_texts", "Texts that wait for the model.", queued_texts)
        self.loaded = Gauge("maxsim_encoder_loaded", "1 when the model is loaded.", loaded)

    def render(self) -> str:
        """Returns all metrics in the text format 0.0.4."""
        series: List[Series] = [self.requests, self.seconds, self.batch_texts, self.batch_seconds, self.tokens]
        return "".join(one.render() for one in [*series, self.abandoned, self.queue, self.loaded])
