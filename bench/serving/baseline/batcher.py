"""Makes micro-batches: requests that arrive within a window are scored together."""

import asyncio
import concurrent.futures
import time

import torch


class Batcher:
    """Gathers the requests for one scorer. Belongs to one event loop.

    A free worker takes the waiting requests as one batch of up to `max_queries` queries: immediately if the window
    `max_delay` is zero, otherwise when the window of the first request is over or the batch is full. Requests also
    gather while all workers are busy. Each worker is a thread with its own CUDA stream, so that one batch is copied and
    read back while another is scored. Workers release the interpreter's lock while they wait for the device.
    """

    def __init__(self, scorer, max_delay, max_queries, workers):
        self._scorer = scorer
        self._max_delay = max_delay
        self._max_queries = max_queries
        self._waiting = []
        self._queries = 0
        self._free = workers
        self._timer = None
        self._pool = concurrent.futures.ThreadPoolExecutor(workers, initializer=self._start_worker)
        self._stream = None

    def _start_worker(self):
        if self._scorer.on_gpu:
            torch.cuda.set_stream(torch.cuda.Stream(self._scorer.device))

    async def score(self, work):
        """Returns (answer, seconds in the queue, seconds of scoring)."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future, time.perf_counter()))
        self._queries += len(work.queries)
        self._dispatch()
        return await future

    def _dispatch(self):
        loop = asyncio.get_running_loop()
        while self._waiting and self._free:
            left = self._waiting[0][2] + self._max_delay - time.perf_counter()
            if left > 0 and self._queries < self._max_queries:
                if self._timer is None:
                    self._timer = loop.call_later(left, self._on_timer)
                return
            self._free -= 1
            loop.create_task(self._run(self._take()))

    def _on_timer(self):
        self._timer = None
        self._dispatch()

    def _take(self):
        batch, queries = [], 0
        for entry in self._waiting:
            if batch and queries + len(entry[0].queries) > self._max_queries:
                break
            batch.append(entry)
            queries += len(entry[0].queries)
        del self._waiting[: len(batch)]
        self._queries -= queries
        return [entry for entry in batch if not entry[1].cancelled()]

    async def _run(self, batch):
        loop = asyncio.get_running_loop()
        begin = time.perf_counter()
        try:
            answers = await loop.run_in_executor(self._pool, self._scorer.score, [work for work, _, _ in batch]) if batch else []
            seconds = time.perf_counter() - begin
            for (_, future, arrival), answer in zip(batch, answers):
                if not future.done():
                    future.set_result((answer, begin - arrival, seconds))
        except Exception as error:  # the batch's requests fail, the server goes on
            for _, future, _ in batch:
                if not future.done():
                    future.set_exception(error)
        finally:
            self._free += 1
            self._dispatch()
