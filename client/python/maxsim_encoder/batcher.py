"""Gathers the texts of concurrent requests, so that one call of the model encodes them together."""

from __future__ import annotations

import collections
import dataclasses
import sys
import threading
import time
import traceback
from typing import Deque, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from maxsim_encoder.encoder import Encoded, Encoder, length_limit
from maxsim_encoder.errors import RequestError
from maxsim_encoder.metrics import Metrics

# One call of the model takes texts of one group only: of one kind (query or document), and cut after the same number of
# tokens.
Group = Tuple[str, Optional[int]]


@dataclasses.dataclass(frozen=True)
class BatchOptions:
    """Limits of the queue and of one call of the model."""

    window_s: float = 0.002  # how long the first text of a batch waits for others
    max_batch_texts: int = 32  # texts per call of the model
    max_queue_texts: int = 4096  # texts in the queue; a request that would exceed this is refused
    queue_timeout_s: float = 30.0  # how long a request waits for its first batch


class Job:
    """The texts of one request. The request's thread waits for `done`. The worker sets `results` or `error` before it
    sets `done`."""

    def __init__(self, texts: List[str], kind: str, max_tokens: Optional[int], truncate: bool) -> None:
        self.texts = texts
        self.group: Group = (kind, max_tokens)
        self.truncate = truncate  # False: a text that is too long is an error
        self.arrived = time.monotonic()
        self.begun = 0  # number of texts that batches have taken
        self.results: List[Encoded] = []
        self.error: Optional[RequestError] = None
        self.done = threading.Event()

    def finish(self, error: Optional[RequestError] = None) -> None:
        if error is not None and not self.done.is_set():
            self.error = error
        self.done.set()


class _Part(NamedTuple):
    """A run of a job's texts that goes into one batch."""

    job: Job
    start: int
    end: int

    @property
    def texts(self) -> List[str]:
        return self.job.texts[self.start : self.end]


class Batcher:
    """The queue, and the only thread that calls the model. Groups take turns, and so do the jobs of a group, so that
    a large request does not keep others waiting until it is done. Thread-safe."""

    def __init__(self, options: BatchOptions) -> None:
        self._options = options
        self._changed = threading.Condition()
        self._groups: "collections.OrderedDict[Group, Deque[Job]]" = collections.OrderedDict()
        self._queued_texts = 0
        self._stopping = False
        self._thread: Optional[threading.Thread] = None

    @property
    def queued_texts(self) -> int:
        return self._queued_texts

    def start(self, encoder: Encoder, metrics: Metrics) -> None:
        """Starts the thread that takes batches. Only this thread calls the encoder."""
        self._encoder = encoder
        self._metrics = metrics
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Puts a job into the queue. Raises RequestError 429 if the queue is full, 503 if the server is stopping."""
        with self._changed:
            if self._stopping:
                raise RequestError(503, "stopping", "the encoder is stopping")
            limit = self._options.max_queue_texts
            if self._queued_texts + len(job.texts) > limit:
                message = f"the queue is full: {self._queued_texts} texts wait, {len(job.texts)} more exceed {limit}"
                raise RequestError(429, "queue_full", message, {"Retry-After": "1"})
            self._groups.setdefault(job.group, collections.deque()).append(job)
            self._queued_texts += len(job.texts)
            self._changed.notify()

    def abandon(self, job: Job, error: RequestError) -> bool:
        """Removes a job from the queue and ends it with `error`. Returns False if the model has begun with the job."""
        with self._changed:
            if job.begun or job.done.is_set():
                return False
            self._remove(job)
            job.finish(error)
        self._metrics.abandoned.add()
        return True

    def stop(self) -> None:
        """Encodes the texts in the queue, and then ends the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _remove(self, job: Job) -> None:
        """Removes the remaining texts of a job from the queue. The caller holds the lock."""
        jobs = self._groups.get(job.group)
        if jobs is None or job not in jobs:
            return
        jobs.remove(job)
        self._queued_texts -= len(job.texts) - job.begun
        if not jobs:
            del self._groups[job.group]

    def _run(self) -> None:
        while parts := self._next():
            try:
                self._encode(parts)
            except Exception as error:  # the thread must outlive whatever a model does
                traceback.print_exc(file=sys.stderr)
                for part in parts:
                    self._fail(part.job, _model_failed(error))

    def _next(self) -> List[_Part]:
        """Waits for a batch and takes it. Returns an empty one if stop() was called and the queue is empty."""
        with self._changed:
            while True:
                if not self._groups:
                    if self._stopping:
                        return []
                    self._changed.wait()
                    continue
                group = next(iter(self._groups))
                left = self._window_left(group)
                if left <= 0:
                    return self._take(group)
                self._changed.wait(left)

    def _window_left(self, group: Group) -> float:
        """Returns for how many seconds the group still waits for texts, 0 if it has a full batch. The caller holds the
        lock."""
        jobs = self._groups[group]
        if self._stopping or sum(len(job.texts) - job.begun for job in jobs) >= self._options.max_batch_texts:
            return 0.0
        return min(job.arrived for job in jobs) + self._options.window_s - time.monotonic()

    def _take(self, group: Group) -> List[_Part]:
        """Takes at most a batch of texts from a group, and moves the group to the end of the queue. The remaining texts
        of a job wait for the group's next turn. The caller holds the lock."""
        jobs = self._groups[group]
        parts: List[_Part] = []
        room = self._options.max_batch_texts
        for _ in range(len(jobs)):
            if not room:
                break
            job = jobs.popleft()
            count = min(room, len(job.texts) - job.begun)
            parts.append(_Part(job, job.begun, job.begun + count))
            job.begun += count
            room -= count
            if job.begun < len(job.texts):
                jobs.append(job)
        self._queued_texts -= self._options.max_batch_texts - room
        self._groups.move_to_end(group)
        if not jobs:
            del self._groups[group]
        return parts

    def _encode(self, parts: List[_Part]) -> None:
        """Runs the model on a batch and gives each job its results. If the model fails on texts of several jobs, runs
        it again per job, so that one caller's text does not make the others fail."""
        parts = [part for part in parts if part.texts and not part.job.done.is_set() and self._fits(part)]
        if not parts:
            return
        kind, max_tokens = parts[0].job.group
        texts = [text for part in parts for text in part.texts]
        began = time.monotonic()
        try:
            encoded = self._encoder.encode(texts, kind, max_tokens)
            if len(encoded) != len(texts):
                raise RuntimeError(f"the model gave {len(encoded)} answers for {len(texts)} texts")
        except Exception as error:  # a model may raise anything
            if len(parts) > 1:
                for part in parts:
                    self._encode([part])
                return
            traceback.print_exc(file=sys.stderr)
            self._fail(parts[0].job, _model_failed(error))
            return
        self._metrics.batch_texts.observe(len(texts), (kind,))
        self._metrics.batch_seconds.observe(time.monotonic() - began, (kind,))
        self._metrics.tokens.add((kind,), sum(len(one.vectors) for one in encoded))
        for part in parts:
            count = part.end - part.start
            self._hand_out(part, encoded[:count])
            encoded = encoded[count:]

    def _hand_out(self, part: _Part, encoded: List[Encoded]) -> None:
        for i, one in enumerate(encoded, part.start):
            vectors = one.vectors
            if vectors.ndim != 2 or not len(vectors) or vectors.shape[1] != self._encoder.info.dim:
                wanted = f"[tokens, {self._encoder.info.dim}]"
                message = f"text {i}: the model answered {list(vectors.shape)} and not {wanted}"
                return self._fail(part.job, RequestError(500, "model_failed", message))
            if not np.isfinite(vectors).all():
                message = f"text {i}: the model answered a vector that is not finite"
                return self._fail(part.job, RequestError(500, "model_failed", message))
        part.job.results += encoded
        if len(part.job.results) == len(part.job.texts):
            part.job.finish()

    def _fits(self, part: _Part) -> bool:
        """Returns whether the texts of a part may be encoded. If one is too long and may not be cut, gives the job an
        error and returns False."""
        if part.job.truncate:
            return True
        kind, max_tokens = part.job.group
        limit = length_limit(self._encoder.info, kind, max_tokens)
        for i, count in enumerate(self._encoder.count_tokens(part.texts, kind), part.start):
            if count > limit:
                message = f"text {i} has {count} tokens, more than the limit {limit}, and truncate is false"
                self._fail(part.job, RequestError(413, "text_too_long", message))
                return False
        return True

    def _fail(self, job: Job, error: RequestError) -> None:
        with self._changed:
            self._remove(job)
            job.finish(error)


def _model_failed(error: Exception) -> RequestError:
    """Returns the error for the client. The text of a library's exception may have paths, so only the log gets it."""
    return RequestError(500, "model_failed", f"the model failed: {type(error).__name__}")


def usage_of(results: List[Encoded]) -> Dict[str, int]:
    """Returns the counts for OpenAI's and vLLM's answers. Each token vector counts as one token."""
    total = sum(len(one.vectors) for one in results)
    return {"prompt_tokens": total, "total_tokens": total}
