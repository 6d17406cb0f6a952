"""Writes documents to a live collection from several processes, and says how long it took.

    writer.py OPTIONS         a JSON object: see `Options`

A writer prints "ready", then reads a line with the time (of time.monotonic()) at which it begins. It ends after its
seconds, or when its standard input is closed, and prints one line of JSON. It makes the bytes of requests without
protobuf: the vectors of a document are a part of a pool, so that a process makes some GB of them per second. One
writer is one process with `threads` connections, and each connection has one call at a time. `Writers` runs several
writers.
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import grpc
import numpy as np

UPSERT = "/maxsim.v1.Documents/Upsert"
DATA_TYPE_F16 = 2
RETRIED = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)


@dataclasses.dataclass
class Options:
    target: str
    collection: str
    dim: int = 128
    tokens: int = 120
    batch: int = 1  # documents of a call
    threads: int = 1
    rate: float = 0  # documents a second of this process; 0: as many as the server takes
    seconds: float = 5
    warmup: float = 0  # seconds; calls that end before are not counted
    first_id: int = 0
    num_ids: int = 1 << 40  # ids are first_id .. first_id + num_ids - 1, in a circle, or random with `shuffle`
    shuffle: bool = False
    seed: int = 1


def varint(value):
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def field(number, data):
    """Returns the key and the length that precede `data` in a field of bytes."""
    return varint(number << 3 | 2) + varint(len(data))


class Requests:
    """Makes the bytes of an UpsertRequest. Its documents have integer ids and F16 vectors from `pool` [rows, dim]."""

    def __init__(self, collection, pool, tokens):
        self.pool, self.tokens = memoryview(pool).cast("B"), tokens
        self.row_bytes, self.num_starts = pool.shape[1] * 2, len(pool) - tokens + 1
        data_bytes = tokens * self.row_bytes
        matrix = b"\x08" + varint(DATA_TYPE_F16) + b"\x10" + varint(tokens) + b"\x18" + varint(pool.shape[1])
        matrix += varint(4 << 3 | 2) + varint(data_bytes)
        # Document: int_id (sfixed64, field 2), then tokens (field 3), whose last field is the data.
        self.behind_id = varint(3 << 3 | 2) + varint(len(matrix) + data_bytes) + matrix
        document_bytes = 1 + 8 + len(self.behind_id) + data_bytes
        self.before_id = varint(2 << 3 | 2) + varint(document_bytes) + b"\x11"
        name = collection.encode()
        self.head = field(1, name) + name

    def make(self, ids, starts):
        parts = [self.head]
        size = self.tokens * self.row_bytes
        for id, start in zip(ids, starts):
            begin = start * self.row_bytes
            parts += (
                self.before_id,
                id.to_bytes(8, "little", signed=True),
                self.behind_id,
                self.pool[begin : begin + size],
            )
        return b"".join(parts)


class Writer:
    def __init__(self, options):
        self.options = options
        pool = np.random.default_rng(options.seed).standard_normal((1 << 15, options.dim), np.float32)
        pool /= np.sqrt(np.einsum("ij,ij->i", pool, pool))[:, None]
        self.requests = Requests(options.collection, pool.astype(np.float16), options.tokens)
        self.milliseconds, self.refused, self.errors = [], 0, {}
        self.documents = 0
        self.stopped = threading.Event()
        self._lock = threading.Lock()
        self._next = 0

    def _ids(self, chooser):
        options = self.options
        if options.shuffle:
            return (options.first_id + chooser.integers(0, options.num_ids, options.batch)).tolist()
        with self._lock:
            begin = self._next
            self._next += options.batch
        return [options.first_id + (begin + i) % options.num_ids for i in range(options.batch)]

    def _run(self, number, begin, end):
        options = self.options
        chooser = np.random.default_rng([options.seed, number, options.first_id])
        arguments = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
        interval = options.batch * options.threads / options.rate if options.rate else 0
        due = begin + interval * number / options.threads
        time.sleep(max(0.0, begin - 0.2 - time.monotonic()))
        with grpc.insecure_channel(options.target, options=arguments) as channel:
            upsert = channel.unary_unary(UPSERT)  # bytes go as they are
            grpc.channel_ready_future(channel).result(30)
            while True:
                request = self.requests.make(
                    self._ids(chooser), chooser.integers(0, self.requests.num_starts, options.batch).tolist()
                )
                now = time.monotonic()
                due = max(due, now) if not interval else due
                if due >= end or now >= end or self.stopped.wait(max(0.0, due - now)):
                    return
                start = time.monotonic()
                if not self._call(upsert, request, end):
                    return
                done = time.monotonic()
                if start >= begin + options.warmup and done <= end:
                    with self._lock:
                        # Latency counts from the time at which the call was due, even if the previous call delayed it.
                        self.milliseconds.append(1e3 * (done - (due if interval else start)))
                        self.documents += options.batch
                due += interval

    def _call(self, upsert, request, end):
        while True:
            try:
                upsert(request, timeout=60)
                return True
            except grpc.RpcError as error:
                with self._lock:
                    if error.code() not in RETRIED:
                        self.errors[error.details()] = self.errors.get(error.details(), 0) + 1
                        return False
                    self.refused += 1
                if time.monotonic() >= end or self.stopped.wait(0.005):
                    return False

    def run(self, begin):
        options = self.options
        end = begin + options.warmup + options.seconds
        threads = [threading.Thread(target=self._run, args=(i, begin, end)) for i in range(options.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {
            "documents": self.documents,
            "seconds": min(time.monotonic(), end) - begin - options.warmup,
            "milliseconds": [round(one, 3) for one in self.milliseconds],
            "refused": self.refused,
            "errors": self.errors,
        }


def percentiles(milliseconds):
    if not len(milliseconds):
        return {"p50_ms": None, "p99_ms": None, "max_ms": None}
    values = np.asarray(milliseconds, float)
    return {
        "p50_ms": float(np.percentile(values, 50)),
        "p99_ms": float(np.percentile(values, 99)),
        "max_ms": float(values.max()),
    }


class Writers:
    """Several writers at the same time, each with its share of the ids and of the rate. They begin to write when the
    constructor returns."""

    def __init__(self, processes=1, **options):
        options = Options(**options)
        share = max(1, options.num_ids // processes)
        self._processes = []
        for number in range(processes):
            one = dataclasses.replace(
                options,
                rate=options.rate / processes,
                first_id=options.first_id + number * share,
                num_ids=share,
                seed=options.seed + number,
            )
            command = [sys.executable, str(pathlib.Path(__file__).resolve()), json.dumps(dataclasses.asdict(one))]
            pipe = subprocess.PIPE
            self._processes.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True))
        for process in self._processes:
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"a writer failed: {process.communicate()[1][-1500:]}")
        begin = time.monotonic() + 0.3
        for process in self._processes:
            process.stdin.write(f"{begin}\n")
            process.stdin.flush()

    def finish(self, stop=False):
        """Waits for the writers, and returns what they did. With `stop`, ends them first."""
        if stop:
            for process in self._processes:
                process.stdin.close()
        answers = []
        for process in self._processes:
            output, errors = process.stdout.read(), process.stderr.read()
            if process.wait() != 0:
                raise RuntimeError(f"a writer failed: {errors[-1500:]}")
            answers.append(json.loads(output))
        failures = [text for one in answers for text in one["errors"]]
        if failures:
            raise RuntimeError(f"a write failed: {failures[0]}")
        return {
            "documents_per_second": sum(one["documents"] / one["seconds"] for one in answers if one["seconds"] > 0),
            "calls": sum(len(one["milliseconds"]) for one in answers),
            "refused": sum(one["refused"] for one in answers),
            **percentiles([one for answer in answers for one in answer["milliseconds"]]),
        }


def main():
    writer = Writer(Options(**json.loads(sys.argv[1])))
    print("ready", flush=True)
    begin = float(sys.stdin.readline())

    def wait_for_end():
        sys.stdin.read()
        writer.stopped.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    print(json.dumps(writer.run(begin)), flush=True)
    os._exit(0)  # a thread may still wait for the end of the input


if __name__ == "__main__":
    main()
