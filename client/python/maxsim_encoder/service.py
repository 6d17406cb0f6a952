"""The functions of the routes, without HTTP."""

from __future__ import annotations

import time
from typing import Callable, Dict, Optional, Tuple

from maxsim_encoder.batcher import Batcher, BatchOptions, Job
from maxsim_encoder.dialects import DIALECTS, Limits
from maxsim_encoder.encoder import Encoder
from maxsim_encoder.errors import RequestError
from maxsim_encoder.metrics import Metrics

# How often a request that waits for the model checks whether its client is still connected.
_CLIENT_CHECK_S = 0.1


class Service:
    """Encodes the texts of requests, and answers with the model's identity and metrics."""

    def __init__(self, batch: BatchOptions, limits: Limits) -> None:
        self.limits = limits
        self._batch = batch
        self._batcher = Batcher(batch)
        self._encoder: Optional[Encoder] = None
        self.metrics = Metrics(lambda: self._batcher.queued_texts, lambda: float(self.loaded))

    @property
    def loaded(self) -> bool:
        return self._encoder is not None

    def set_encoder(self, encoder: Encoder) -> None:
        """Begins to serve. Requests that came before this were answered with 503."""
        self._batcher.start(encoder, self.metrics)
        self._encoder = encoder

    def encoder(self) -> Encoder:
        """Returns the model. Raises RequestError 503 while it is being loaded."""
        if self._encoder is None:
            raise RequestError(503, "loading", "the model is being loaded", {"Retry-After": "1"})
        return self._encoder

    def answer(
        self, route: str, body: bytes, query: Dict[str, str], client_is_there: Callable[[], bool]
    ) -> Tuple[str, bytes]:
        """Returns content type and body of the answer to a dialect's request. Raises RequestError."""
        info = self.encoder().info
        parse, render = DIALECTS[route]
        request = parse(body, query, self.limits, info)
        job = Job(request.texts, request.kind, request.max_tokens, request.truncate)
        self._batcher.submit(job)
        limit = job.arrived + self._batch.queue_timeout_s
        while not job.done.wait(_CLIENT_CHECK_S):
            if job.begun:
                continue
            if not client_is_there():
                self._batcher.abandon(job, RequestError(499, "client_gone", "the client has gone"))
            elif time.monotonic() > limit:
                message = f"no batch for {self._batch.queue_timeout_s:g} s: the encoder is overloaded"
                self._batcher.abandon(job, RequestError(503, "overloaded", message, {"Retry-After": "1"}))
        if job.error is not None:
            raise job.error
        return render(job.results, request, info, self.limits)

    def stop(self) -> None:
        """Encodes the texts that were accepted, and then ends the model's thread."""
        self._batcher.stop()
