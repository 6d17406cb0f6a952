"""The code of the timing process: finds the median time of each method, or the reason why the method has none."""

import contextlib
import json
import signal

from peer_timing.row_inputs import Inputs
from peer_timing.peers import Peers
from peer_timing.report_rows import OUT_OF_TIME, add_timing, given_up, tell_rows

FLUSH_BYTES = 256 << 20
# Bound on errors, relative to the scores' magnitude. It is far above rounding errors, and far below the errors of a
# wrong kernel.
TOLERANCE = {"f16": 1e-3, "bf16": 1e-3, "i8": 2e-2}


class OutOfTime(BaseException):
    """Not an Exception, because the peers catch those."""


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

    # The host does not wait between the flush and the call. It starts the call while the device is still flushing.
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
        """Returns a function that replays the call as a CUDA graph, or None if the call cannot be captured."""
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
    """Writes max_rel_error, eager_ms and graph_ms to `timing` as they are found. Raises ArithmeticError if scores are
    wrong.

    Calls `so_far` before it uses a graph, because that may crash the process.
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


def time_method_of(torch, timer, inputs, prepare, options, tell_timing):
    """Returns one method's figures, and why it failed, if it did. Calls `tell_timing` with the figures found so far."""
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
    """The main function of the timing process. Times the rows from number options.time_from on.

    Prints lines of JSON: {"software": ..} with the versions in use; {"row": 3, "peer": .., "method": ..} when it
    begins with a method; the same with "so_far" when it has some of the method's figures; and the same with "timing"
    when it has all of them. Skips the methods for which the file of --json already has figures.
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
            torch.cuda.synchronize()  # raises if the device is broken: the next process goes on
        del inputs, prepare
        torch.cuda.empty_cache()
    return 0
