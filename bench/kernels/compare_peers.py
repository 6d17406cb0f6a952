#!/usr/bin/env python3
"""Times other MaxSim kernels on the shapes of maxsim_bench_gpu, on the same inputs and in the same run.

    pip download --no-deps flash-maxsim==0.3.0 late-interaction-kernels==0.4.5   (and unzip both into PEERS)
    python3 compare_peers.py --bench maxsim_bench_gpu --peers PEERS --json kernels.json

Needs PyTorch and Triton on a GPU. Runs maxsim_bench_gpu (--bench; without it --json must hold its results already, and
--inputs what it wrote there), then every peer that can do a row's shape, and adds their milliseconds to the row:

    "peers": {"flash-maxsim 0.3.0": 0.033, "late-interaction-kernels 0.4.5": null}

null stands for a peer that fails, or has no figure after --seconds-per-method, its tuning included. Rows of INT8 have
the peers' 8-bit variants, "flash-maxsim 0.3.0 int8" and "late-interaction-kernels 0.4.5 fp8", which read as many bytes;
those take documents of equal length, so that lists and ragged rows of INT8 have what the peers do in FP16.
"peer_methods" has every figure, as called and as a CUDA graph's replay, of which the best counts, and why one is missing;
"peer_error" is why a row has none at all.

Times are medians of CUDA events, as maxsim_bench_gpu takes them: before every call 256 MB that nothing else uses are
read on the same stream, so that the cache is cold and the launches are hidden. Documents and queries are the very
numbers that maxsim_bench_gpu scores (bench/kernels/gpu_data.h); every method's scores are compared with FP64 first.

Triton compiles a kernel for every tuning choice: several processes do that beforehand, a part of the choices each
(--compile-processes), which fills Triton's cache; then another one tunes and times, with the device to itself. It is
ended where a method is far beyond its time, since a compiler does not listen to signals, and started again behind that.
Rows of a sweep are not tried with a method that had no time for as few query tokens and columns before.
"""

import argparse
import contextlib
import datetime
import functools
import importlib.metadata
import json
import os
import queue
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

FLASH, LIK = "flash-maxsim", "late-interaction-kernels"
PASSAGES = (8, 512)
FLUSH_BYTES = 256 << 20
DOCUMENT_SEED, QUERY_SEED = 11, 1000
FILL_CHUNK = 1 << 25
# Bound on errors relative to the scores' magnitude: far above rounding, and far below the errors of a wrong kernel.
TOLERANCE = {"f16": 1e-3, "bf16": 1e-3, "i8": 2e-2}
# Reasons why a method has no figure: it took longer than --seconds-per-method; it did so and its process had to be
# ended; --seconds were over.
OUT_OF_TIME, STUCK, NO_TIME_LEFT = "out of time", "out of time, and stuck", "no time left"
# Seconds that the process that times may take to start, and seconds beyond --seconds-per-method after which it is
# taken as stuck.
START_SECONDS, GRACE_SECONDS = 90, 4


class OutOfTime(BaseException):
    """Is no Exception, since the peers catch those."""


@contextlib.contextmanager
def time_limit(seconds):
    def stop(_signal, _frame):
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def parse_shape(name):
    """Returns what bench/kernels/gpu_shapes.h says of a name, or None for a name that is no shape."""
    selection = re.fullmatch(r"topk:(\d+)k(\d+)", name)
    if selection:
        return {"kind": "topk", "scores": int(selection[1]), "k": int(selection[2])}
    match = re.fullmatch(r"(lists:|shard:)?(\d+)x(?:(\d+)of)?(\d+)(?:x(\d+)x(passages|\d+(?:-\d+)?))?", name)
    if not match or (match[1] == "lists:") != bool(match[3]) or (match[1] is None and match[5] is None):
        return None
    shape = {
        "kind": "lists" if match[3] else "all",
        "queries": int(match[2]),
        "documents": int(match[4]),
        "list_size": int(match[3] or 0),
        "query_tokens": int(match[5] or 32),
    }
    lengths = match[6] or "passages"
    low, high = PASSAGES if lengths == "passages" else (lengths.split("-") * 2)[:2]
    shape["min_tokens"], shape["max_tokens"] = int(low), int(high)
    shape["ragged"] = shape["min_tokens"] != shape["max_tokens"]
    return shape


def add_timing(row, label, timing):
    """Adds one method's figures to a row, and the peer's best so far."""
    row.setdefault("peer_methods", []).append({"peer": label, **timing})
    times = [t for t in (timing.get("eager_ms"), timing.get("graph_ms")) if t is not None]
    best = row.setdefault("peers", {}).get(label)
    row["peers"][label] = min(times + ([best] if best is not None else []), default=None)


def tell_rows(report, sweep_rows):
    """Returns the rows that peers are timed on: all that were asked for, and some from all over a sweep."""
    rows = [row for row in report.get("rows", []) if row["storage"] != "f32"]
    sweep = report.get("sweep", {}).get("rows", [])
    count = min(sweep_rows, len(sweep))
    return rows, [sweep[n * len(sweep) // count] for n in range(count)]


class Inputs:
    """A row's queries and documents on the device, with maxsim_bench_gpu's values; without `fill` only shapes."""

    def __init__(self, torch, row, folder, fill):
        self.torch, self.fill = torch, fill
        self.shape = parse_shape(row["shape"])
        self.storage = row["storage"]
        self.dtype = torch.bfloat16 if self.storage == "bf16" else torch.float16
        self.kind = self.shape["kind"]
        if self.kind == "topk":
            self.scores = self.values(3, self.shape["scores"], 20.0, torch.float32)
            return
        shape, dim = self.shape, row["d"]
        scale = (torch.tensor(1.7) / torch.sqrt(torch.tensor(float(dim)))).item()
        self.num_queries, self.query_tokens, self.dim = shape["queries"], shape["query_tokens"], dim
        path = os.path.join(folder, row["shape"].replace(":", "_"))
        if shape["ragged"]:
            self.offsets = self.file(path + ".offsets", "int64")
        else:
            self.offsets = torch.arange(shape["documents"] + 1) * shape["max_tokens"]
        self.lists = None
        if self.kind == "lists":
            self.lists = self.file(path + ".lists", "uint32").reshape(self.num_queries, -1)
        self.max_tokens = int((self.offsets[1:] - self.offsets[:-1]).max())
        per_query = self.query_tokens * dim
        self.queries = torch.stack(
            [self.values(QUERY_SEED + n, per_query, scale, self.dtype) for n in range(self.num_queries)]
        ).reshape(self.num_queries, self.query_tokens, dim)
        self.rows = self.values(DOCUMENT_SEED, int(self.offsets[-1]) * dim, scale, self.dtype).reshape(-1, dim)

    def file(self, path, dtype):
        import numpy

        return self.torch.from_numpy(numpy.fromfile(path, dtype=dtype).astype(numpy.int64))

    def values(self, seed, count, scale, dtype):
        """Does what FillRandom of kernels/cuda/testing/random_fill.cu does."""
        torch = self.torch
        values = torch.empty(count, dtype=dtype, device="cuda")
        for begin in range(0, count if self.fill else 0, FILL_CHUNK):
            index = torch.arange(begin, min(begin + FILL_CHUNK, count), device="cuda")
            bits = mix(seed ^ mix(index)) >> 40 & 0xFFFFFF
            values[begin : begin + FILL_CHUNK] = (bits.float() * 2.0**-23 - 1.0) * scale
        return values

    @property
    def documents(self):
        """Returns the documents as [documents, tokens, columns], where all have the same length."""
        return self.rows.reshape(self.shape["documents"], self.max_tokens, self.dim)

    def candidates(self, query):
        return self.lists[query] if self.lists is not None else range(self.shape["documents"])

    def largest_error(self, scores):
        """Returns the largest error of a few scores, relative to their magnitude. `scores` is what a method returns."""
        torch = self.torch
        if self.kind == "topk":
            return 0.0
        if isinstance(scores, (list, tuple)):
            scores = torch.stack(list(scores))
        scores = scores.float().reshape(self.num_queries, -1).double()
        largest = 0.0
        for n in {0, self.num_queries - 1}:
            candidates = self.candidates(n)
            for position in {0, len(candidates) // 2, len(candidates) - 1}:
                document = int(candidates[position])
                rows = self.rows[int(self.offsets[document]) : int(self.offsets[document + 1])].double()
                query = self.queries[n].double()
                expected = (query @ rows.T).max(1).values.sum()
                magnitude = (query.abs() @ rows.abs().T).max(1).values.sum()
                error = ((scores[n, position] - expected).abs() / magnitude).item()
                largest = error if error != error else max(largest, error)
        return largest


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def mix(x):
    """Applies SplitMix64's finaliser to a tensor of int64, whose shifts are arithmetic."""
    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ (x >> 30 & (1 << 34) - 1)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> 27 & (1 << 37) - 1)) * signed(0x94D049BB133111EB)
    return x ^ (x >> 31 & (1 << 33) - 1)


class Peers:
    """The installed or unpacked packages, and how each scores a row."""

    def __init__(self, torch):
        import flash_maxsim
        import late_interaction_kernels
        from late_interaction_kernels import fp8, score_pairs

        self.torch, self.flash, self.lik = torch, flash_maxsim, late_interaction_kernels
        self.fp8, self.pairs = fp8, score_pairs
        self.flash_name = f"{FLASH} {importlib.metadata.version(FLASH)}"
        self.lik_name = f"{LIK} {importlib.metadata.version(LIK)}"
        self.torch_name = f"torch.topk {torch.__version__.split('+')[0]}"

    def methods(self, inputs):
        """Returns (peer, method, a function that makes the timed call) of every method that can do the row."""
        if inputs.kind == "topk":
            k = inputs.shape["k"]
            return [(self.torch_name, "topk", lambda: lambda: inputs.scores.topk(k))]
        if inputs.storage == "i8" and not inputs.shape["ragged"] and inputs.lists is None:
            return self.eight_bit(inputs)
        if inputs.lists is not None:
            return self.by_list(inputs)
        return self.ragged(inputs) if inputs.shape["ragged"] else self.uniform(inputs)

    def uniform(self, inputs):
        queries, documents = inputs.queries, inputs.documents
        if inputs.num_queries == 1:
            return [
                (self.flash_name, "flash_maxsim", lambda: lambda: self.flash.flash_maxsim(queries[0], documents)),
                (self.lik_name, "maxsim", lambda: lambda: self.lik.maxsim(queries[0], documents)),
            ]

        def batched(**options):
            return lambda: lambda: self.flash.flash_maxsim_batched(queries, documents, shared_docs=True, **options)

        return [
            (self.flash_name, "flash_maxsim_batched", batched()),
            (self.flash_name, "flash_maxsim_batched, unpadded", batched(pad_lq=False)),
            (self.lik_name, "maxsim", lambda: lambda: self.lik.maxsim(queries, documents)),
        ]

    def boundaries(self, inputs):
        """Returns the bounds of queries and of documents that the packed interfaces take."""
        torch = self.torch
        query_bounds = torch.arange(inputs.num_queries + 1, device="cuda") * inputs.query_tokens
        return query_bounds.int(), inputs.offsets.int().cuda()

    def ragged(self, inputs):
        queries, rows, longest = inputs.queries, inputs.rows, inputs.max_tokens
        query_bounds, document_bounds = self.boundaries(inputs)
        packed_queries = queries.reshape(-1, inputs.dim)

        def one_by_one():
            return [self.flash.flash_maxsim_packed(query, rows, document_bounds, longest) for query in queries]

        def together():
            return self.lik.maxsim_varlen(
                packed_queries, rows, query_bounds, document_bounds, inputs.query_tokens, longest
            )

        return [
            (self.flash_name, "flash_maxsim_packed, a query at a time", lambda: one_by_one),
            (self.lik_name, "maxsim_varlen", lambda: together),
        ]

    def by_list(self, inputs):
        torch = self.torch
        queries, rows, lists = inputs.queries, inputs.rows, inputs.lists
        query_bounds, document_bounds = self.boundaries(inputs)
        first = inputs.offsets[lists].int().cuda()
        lengths = (inputs.offsets[lists + 1] - inputs.offsets[lists]).int().cuda()
        longest = int(lengths.max())
        packed_queries = queries.reshape(-1, inputs.dim)
        pair_query = torch.arange(len(lists)).repeat_interleave(lists.shape[1]).int().cuda()
        pair_document = lists.reshape(-1).int().cuda()

        def one_by_one():
            return [
                self.flash.flash_maxsim_rerank_direct(query, rows, first[n], lengths[n], longest)
                for n, query in enumerate(queries)
            ]

        def together():
            return self.pairs.score_pairs_packed(
                packed_queries,
                rows,
                query_bounds,
                document_bounds,
                pair_query,
                pair_document,
                max_seqlen_q=inputs.query_tokens,
                max_seqlen_d=inputs.max_tokens,
            )

        return [
            (self.flash_name, "flash_maxsim_rerank_direct, a query at a time", lambda: one_by_one),
            (self.lik_name, "score_pairs_packed", lambda: together),
        ]

    def eight_bit(self, inputs):
        queries, documents = inputs.queries, inputs.documents

        def int8():
            elements, scales = self.flash.quantize_int8_symmetric(documents)
            quantised = [self.flash.quantize_query_int8(query) for query in queries]
            return lambda: [
                self.flash.flash_maxsim_int8x8(query, elements, scales, *parts)
                for query, parts in zip(queries, quantised)
            ]

        def fp8():
            query, query_scales = self.fp8.quantize_fp8_per_token(queries[0] if len(queries) == 1 else queries)
            elements, scales = self.fp8.quantize_fp8_per_token(documents)
            return lambda: self.fp8.maxsim_inference_fp8(query, elements, scale_Q=query_scales, scale_D=scales)

        one_by_one = "" if len(queries) == 1 else ", a query at a time"
        return [
            (f"{self.flash_name} int8", "flash_maxsim_int8x8" + one_by_one, int8),
            (f"{self.lik_name} fp8", "maxsim_inference_fp8 per token", fp8),
        ]

    def tuned_kernels(self):
        from triton.runtime.autotuner import Autotuner

        packages = ("flash_maxsim", "late_interaction_kernels")
        modules = [module for name, module in sys.modules.items() if name.split(".")[0] in packages]
        kernels = [kernel for module in modules for kernel in vars(module).values() if isinstance(kernel, Autotuner)]
        return list({id(kernel): kernel for kernel in kernels}.values())

    def keep_part_of_tuning(self, part, parts):
        """Leaves every tuned kernel only its choices part, part + parts and so on."""
        for kernel in self.tuned_kernels():
            kernel.configs = kernel.configs[part::parts]

    def tune_for(self, milliseconds):
        """Has every tuning choice timed for that long in place of Triton's 125 ms."""
        from triton.testing import do_bench

        for kernel in self.tuned_kernels():
            kernel.do_bench = functools.partial(do_bench, warmup=milliseconds / 4, rep=milliseconds)
            kernel.cache_results = False  # what is chosen so fast is not for a later run


class Timer:
    """Times by medians of CUDA events, with the cache flushed before every call."""

    def __init__(self, torch):
        self.torch = torch
        self.flushed = torch.ones(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")
        self.sum = torch.empty((), dtype=torch.float32, device="cuda")

    def median_ms(self, call, budget_s):
        times = self.times(call, 3)
        count = max(7, min(40, int(budget_s * 1e3 / (max(times) + 0.1))))
        times = sorted(self.times(call, count))
        return times[len(times) // 2]

    # Nothing waits between flush and call, so that the device still flushes when the host starts the call.
    def times(self, call, count):
        torch = self.torch
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
        for begin, end in events:
            torch.sum(self.flushed, 0, out=self.sum)
            begin.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [begin.elapsed_time(end) for begin, end in events]

    def graph(self, call):
        """Returns a function that replays the call, or None where it cannot be captured."""
        torch = self.torch
        try:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                call()
            torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                call()
            return graph.replay
        except Exception:  # calls that wait for the device
            with contextlib.suppress(Exception):
                torch.cuda.synchronize()
            return None


def time_method(timer, inputs, prepare, budget_s, timing, so_far):
    """Puts eager_ms, graph_ms and max_rel_error into `timing` as they come; raises where the scores are wrong.

    Calls `so_far` before the graph, which may bring the process down.
    """
    call = prepare()
    error = inputs.largest_error(call())
    if not error <= TOLERANCE.get(inputs.storage, 0):
        raise ArithmeticError(f"wrong scores: relative error {error:.1e}")
    timing["max_rel_error"] = error
    timing["eager_ms"] = timer.median_ms(call, budget_s)
    so_far()
    replay = timer.graph(call)
    if replay is not None:
        timing["graph_ms"] = timer.median_ms(replay, budget_s)


def given_up(rows, row, peer, method):
    """Returns the name of a row that asks for no more of the method, which had no time for it, or None."""
    shape, dim = parse_shape(row["shape"]), row["d"]
    if shape["kind"] == "topk":
        return None
    for other in rows:
        for timing in other.get("peer_methods", []):
            if (timing["peer"], timing["method"]) == (peer, method) and timing.get("error") in (OUT_OF_TIME, STUCK):
                asked_for = parse_shape(other["shape"])["query_tokens"] <= shape["query_tokens"] and other["d"] <= dim
                if asked_for and timing.get("eager_ms") is None:
                    return other["shape"]
    return None


def time_method_of(torch, timer, inputs, prepare, options, tell_timing):
    """Returns one method's figures and why it failed, if it did. `tell_timing` is called with figures as they come."""
    timing = {"eager_ms": None, "graph_ms": None}
    try:
        with time_limit(options.seconds_per_method), torch.no_grad():
            time_method(timer, inputs, prepare, options.budget, timing, lambda: tell_timing(timing))
    except OutOfTime:
        timing["error"] = OUT_OF_TIME
    except Exception as error:
        timing["error"] = f"{type(error).__name__}: {error}"[:200]
    with contextlib.suppress(Exception):
        torch.cuda.synchronize()
    return timing


def tell(message):
    print(json.dumps(message), flush=True)


def time_from(options):
    """Runs in the process that times, from a row on.

    Says in a line of JSON what it runs on, {"software": ..}; what it begins, {"row": 3, "peer": .., "method": ..}; again,
    with "so_far", when it has some of the figures; and with "timing", when it has them. A row's methods that --json has
    already are left out.
    """
    import torch
    import triton

    # The peers' kernels are tuned for this GPU only.
    peers, timer = Peers(torch), Timer(torch)
    tell({"software": {"torch": torch.__version__, "triton": triton.__version__}})
    with open(options.json, encoding="utf-8") as file:
        goals, sweep = tell_rows(json.load(file), options.sweep_rows)
    rows = goals + sweep
    for n in range(options.time_from, len(rows)):
        row = rows[n]
        if n >= len(goals) and options.sweep_tuning_ms is not None:
            peers.tune_for(options.sweep_tuning_ms)
        known = {(timing["peer"], timing["method"]) for timing in row.get("peer_methods", [])}
        tell({"row": n})
        inputs = Inputs(torch, row, options.inputs, fill=True)
        for peer, method, prepare in peers.methods(inputs):
            if (peer, method) in known:
                continue
            begun = {"row": n, "peer": peer, "method": method}
            tell(begun)
            beyond = given_up(rows, row, peer, method) if n >= len(goals) else None
            if beyond is not None:
                timing = {"eager_ms": None, "graph_ms": None, "error": f"not tried: no time for {beyond}"}
            else:
                timing = time_method_of(
                    torch, timer, inputs, prepare, options, lambda figures: tell({**begun, "so_far": figures})
                )
            add_timing(row, peer, {"method": method, **timing})
            tell({**begun, "timing": timing})
            torch.cuda.synchronize()  # raises where the device was brought down: the next process goes on
        del inputs, prepare
        torch.cuda.empty_cache()
    return 0


class Timing:
    """The process that times, as the one that watches over it sees it."""

    def __init__(self, options, first_row):
        command = own_command(options) + ["--time-from", str(first_row), "--budget", str(options.budget)]
        command += ["--seconds-per-method", str(options.seconds_per_method)]
        if options.sweep_tuning_ms is not None:
            command += ["--sweep-tuning-ms", str(options.sweep_tuning_ms)]
        # The process has a group of its own, so that compilers which it started end with it.
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.messages = queue.Queue()
        self.software = None  # once it is up
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            if line.startswith(('{"row"', '{"software"')):  # a peer may print, too
                self.messages.put(json.loads(line))
        self.messages.put(None)

    def end(self):
        end_group(self.process)


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def follow(timing, rows, seconds_per_method, deadline, take):
    """Calls `take` with every figure. Returns what was begun last and why it ended there: "" after the last row."""
    begun = None
    while time.monotonic() < deadline:
        patience = START_SECONDS if begun is None else seconds_per_method + GRACE_SECONDS
        try:
            message = timing.messages.get(timeout=max(0.1, min(patience, deadline - time.monotonic())))
        except queue.Empty:
            return begun, NO_TIME_LEFT if time.monotonic() >= deadline else STUCK
        if message is None:
            return begun, "" if timing.process.wait() == 0 else "the process ended"
        if "software" in message:
            timing.software = message["software"]
            continue
        begun = message
        if "timing" in message:
            take(rows[message["row"]], message)
    return begun, NO_TIME_LEFT


def time_all(report, rows, options):
    """Times the peers on `rows`, which have no figures of theirs yet. Returns False where no process starts."""
    deadline = time.monotonic() + options.seconds
    print(f"{'shape':<40} {'peer':<36} {'eager ms':>9} {'graph ms':>9}", flush=True)

    def take(row, message):
        figures = message["timing"]
        add_timing(row, message["peer"], {"method": message["method"], **figures})
        label = f"{row['shape']} {row['storage']} d {row['d']}"
        times = (f"{t:9.4f}" if t is not None else f"{'-':>9}" for t in (figures["eager_ms"], figures["graph_ms"]))
        outcome = figures.get("error", message["method"])
        print(f"{label:<40} {message['peer']:<36} {' '.join(times)}  {outcome}", flush=True)
        save(report, options.json)

    first, reason, came_up, failed_starts = 0, "", False, 0
    while first < len(rows) and reason != NO_TIME_LEFT:
        timing = Timing(options, first)
        try:
            begun, reason = follow(timing, rows, options.seconds_per_method, deadline, take)
        finally:
            timing.end()
        if timing.software is not None:
            report["software"] = timing.software
        if reason == "":
            break
        if begun is None:
            failed_starts += 1
            print(f"no peer is timed: {reason} before row {first}", file=sys.stderr, flush=True)
            if reason != NO_TIME_LEFT and (not came_up or failed_starts > 1):
                return False
            continue
        came_up, failed_starts = True, 0
        first = begun["row"]
        if "peer" in begun and "timing" not in begun:
            figures = begun.get("so_far", {"eager_ms": None, "graph_ms": None})
            take(rows[first], {**begun, "timing": {**figures, "error": reason}})
        elif "peer" not in begun and reason != NO_TIME_LEFT:
            print(f"{rows[first]['shape']}: no inputs: {reason}", flush=True)
            if not rows[first]["peer_methods"]:
                rows[first]["peer_error"] = f"no inputs: {reason}"
                save(report, options.json)
            first += 1
    left_out = sum(not row["peer_methods"] and "peer_error" not in row for row in rows)
    if left_out:
        print(f"{left_out} rows left out for want of time", flush=True)
    return True


def own_command(options):
    command = [sys.executable, os.path.abspath(__file__), "--json", options.json, "--inputs", options.inputs]
    command += ["--sweep-rows", str(options.sweep_rows)]
    return command + (["--peers", options.peers] if options.peers else [])


def compile_part(options):
    """Runs in one of the processes that compile: calls everything once with a part of the tuning choices."""
    import torch

    part, parts = map(int, options.compile_part.split("/"))
    peers = Peers(torch)
    peers.keep_part_of_tuning(part, parts)
    with open(options.json, encoding="utf-8") as file:
        goals, sweep = tell_rows(json.load(file), options.sweep_rows)
    # Long queries come last: some kernels are unrolled over them, and one of their choices can take a compiler minutes.
    for row in goals + sorted(sweep, key=lambda row: parse_shape(row["shape"])["query_tokens"]):
        if row["storage"] == "-":
            continue
        with contextlib.suppress(Exception):
            inputs = Inputs(torch, row, options.inputs, fill=False)
            for _, _, prepare in peers.methods(inputs):
                # A choice that does not fit the device fails here as it does in tuning.
                with contextlib.suppress(Exception), torch.no_grad():
                    prepare()()
                    torch.cuda.synchronize()
        torch.cuda.empty_cache()


def compile_all(options):
    command = own_command(options)
    count = options.compile_processes
    begin = time.monotonic()
    processes = [
        subprocess.Popen(
            command + ["--compile-part", f"{part}/{count}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for part in range(count)
    ]
    unfinished = 0
    try:
        for process in processes:
            try:
                process.wait(max(0.1, begin + options.compile_seconds - time.monotonic()))
            except subprocess.TimeoutExpired:
                unfinished += 1
    finally:
        for process in processes:
            end_group(process)
    print(f"compiling took {time.monotonic() - begin:.0f} s; {unfinished} of {count} processes unfinished", flush=True)


def run_bench(options):
    """Returns the exit status, and whether the figures, which may be some of all, are in the file of --json."""
    fresh = options.json + ".bench"
    command = [options.bench, "--json", fresh, "--inputs", options.inputs, *options.bench_args]
    command += ["--shapes", options.shapes]
    with contextlib.suppress(FileNotFoundError):
        os.remove(fresh)  # of a run that was interrupted
    result = subprocess.run(command, check=False)
    if result.returncode != 0:
        print(f"{command[0]} failed with {result.returncode}", file=sys.stderr, flush=True)
    measured = os.path.exists(fresh)
    if measured:
        os.replace(fresh, options.json)
    return result.returncode, measured


def save(report, path):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)


def shown(arguments):
    """Returns the command line without folders."""
    return shlex.join(["compare_peers.py"] + [os.path.basename(a.rstrip("/")) if "/" in a else a for a in arguments])


def compare(options):
    begin = time.monotonic()
    failed, measured = run_bench(options) if options.bench else (0, True)
    if not measured:
        return failed or 1
    with open(options.json, encoding="utf-8") as file:
        found = file.read()
    report = json.loads(found)
    goals, sweep = tell_rows(report, options.sweep_rows)
    rows = goals + sweep
    for row in rows:
        row["peers"], row["peer_methods"] = {}, []
        row.pop("peer_error", None)
    report["command"] = shown(sys.argv[1:])
    report["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    save(report, options.json)
    try:
        if options.compile_processes > 0 and rows:
            compile_all(options)
        if not time_all(report, rows, options):
            failed = 1
    finally:
        if not any(row["peer_methods"] for row in rows):  # figures of an earlier run stay
            report = json.loads(found)
        save(report, options.json)
    print(f"{time.monotonic() - begin:.0f} s in all", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", required=True, help="maxsim_bench_gpu's results, to which the peers' are added")
    parser.add_argument("--bench", help="maxsim_bench_gpu, to be run first")
    parser.add_argument("--bench-args", default="", help='further arguments for it, such as "--sweep 200 --seed 1"')
    parser.add_argument("--shapes", default="goals", help="as --shapes of maxsim_bench_gpu; default: goals")
    parser.add_argument("--inputs", help="folder for lengths and lists; default: a temporary one")
    parser.add_argument("--peers", help="folder with the unpacked packages, where they are not installed")
    parser.add_argument("--seconds", type=float, default=150, help="time for all peers, compiling not counted")
    parser.add_argument("--seconds-per-method", type=float, default=25, help="time for one method on one shape")
    parser.add_argument("--budget", type=float, default=0.1, help="seconds of calls behind one median")
    parser.add_argument("--compile-processes", type=int, default=min(14, max(1, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--compile-seconds", type=float, default=100)
    parser.add_argument("--sweep-rows", type=int, default=0, help="rows of a sweep that peers are timed on too")
    parser.add_argument("--sweep-tuning-ms", type=float, help="time for a tuning choice there; default: Triton's")
    parser.add_argument("--compile-part", help=argparse.SUPPRESS)
    parser.add_argument("--time-from", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.bench_args = options.bench_args.split()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # what was started ends, too
    if options.peers:
        sys.path.insert(0, options.peers)
    if options.compile_part:
        return compile_part(options)
    if options.time_from is not None:
        return time_from(options)
    with tempfile.TemporaryDirectory() as folder:
        options.inputs = options.inputs or folder
        return compare(options)


if __name__ == "__main__":
    sys.exit(main())
