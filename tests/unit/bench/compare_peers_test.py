"""Tests compare_peers.py: how it reads shapes and keeps figures, and what it does if a method hangs or fails."""

import argparse
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

from report_fixture import FLASH, LIK, results, row, sweep

import compare_peers
from peer_timing import processes, report_rows, row_inputs, timing_process, watching


class Int64:
    """Emulates an int64 tensor for row_inputs.mix: sums and products wrap around, shifts keep the sign."""

    def __init__(self, value):
        value &= (1 << 64) - 1
        self.value = value - (1 << 64) if value >> 63 else value

    def __add__(self, other):
        return Int64(self.value + other)

    def __mul__(self, other):
        return Int64(self.value * other)

    def __xor__(self, other):
        return Int64(self.value ^ (other.value if isinstance(other, Int64) else other))

    def __rshift__(self, count):
        return Int64(self.value >> count)

    def __and__(self, mask):
        return Int64(self.value & mask)


class ComparePeersTest(unittest.TestCase):
    def test_reads_the_shapes_names(self):
        shape = report_rows.parse_shape("lists:32x1000of100000")
        self.assertEqual((shape["kind"], shape["queries"], shape["list_size"]), ("lists", 32, 1000))
        self.assertEqual((shape["documents"], shape["query_tokens"], shape["ragged"]), (100000, 32, True))
        shape = report_rows.parse_shape("3x50x64x180")
        self.assertEqual((shape["kind"], shape["min_tokens"], shape["max_tokens"]), ("all", 180, 180))
        self.assertFalse(shape["ragged"])
        self.assertEqual(report_rows.parse_shape("2x9x7x4-4096")["max_tokens"], 4096)
        self.assertEqual(report_rows.parse_shape("topk:50k7"), {"kind": "topk", "scores": 50, "k": 7})
        for name in ("1x2", "lists:1x10", "1x3of5x7x9", "shard:1x2x3", "goals"):
            self.assertIsNone(report_rows.parse_shape(name), name)

    def test_values_are_those_that_the_benchmark_fills_with(self):
        def mix(x):  # SplitMix64's finaliser on unsigned numbers
            x = (x + 0x9E3779B97F4A7C15) % 2**64
            x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
            x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
            return x ^ x >> 31

        for value in (0, 1, 2**31, 2**40 + 12345):
            self.assertEqual(row_inputs.mix(Int64(value)).value % 2**64, mix(value))

    def test_the_best_of_all_methods_counts_as_called_or_replayed(self):
        measured = row(peers={})
        report_rows.add_timing(measured, FLASH, {"method": "a", "eager_ms": 0.5, "graph_ms": None})
        report_rows.add_timing(measured, FLASH, {"method": "b", "eager_ms": 0.6, "graph_ms": 0.4})
        report_rows.add_timing(measured, FLASH, {"method": "c", "eager_ms": None, "graph_ms": None, "error": "no"})
        report_rows.add_timing(measured, LIK, {"method": "d", "eager_ms": None, "graph_ms": None, "error": "no"})
        self.assertEqual(measured["peers"], {FLASH: 0.4, LIK: None})
        self.assertEqual(len(measured["peer_methods"]), 4)

    def test_peers_get_the_rows_they_can_do(self):
        rows = [row(), row("1x2x3x4", "f32"), row("topk:10k2", "-", None)]
        swept = sweep([1.0, 2.0, 3.0, 4.0])
        self.assertEqual(report_rows.tell_rows(results(rows, sweep=swept), 0), ([rows[0], rows[2]], []))
        told, of_sweep = report_rows.tell_rows(results(rows, sweep=swept), 2)
        self.assertEqual((told, of_sweep), ([rows[0], rows[2]], [swept["rows"][0], swept["rows"][2]]))
        self.assertEqual(report_rows.tell_rows(results(rows, sweep=swept), 9)[1], swept["rows"])

    def test_a_method_without_time_is_given_up_for_rows_that_ask_for_no_less(self):
        tried = row("2x9x64x4-40", d=96, peers={})
        report_rows.add_timing(tried, FLASH, {"method": "a", "error": report_rows.OUT_OF_TIME})
        report_rows.add_timing(tried, FLASH, {"method": "s", "error": report_rows.STUCK})
        report_rows.add_timing(tried, FLASH, {"method": "c", "eager_ms": 3.0, "error": report_rows.OUT_OF_TIME})
        report_rows.add_timing(tried, LIK, {"method": "b", "error": "ValueError: no"})
        for shape, d, method, expected in (
            ("1x9x64x4-40", 96, (FLASH, "a"), True),
            ("1x9x65x4-40", 128, (FLASH, "s"), True),
            ("1x9x63x4-40", 128, (FLASH, "a"), False),
            ("1x9x64x4-40", 64, (FLASH, "a"), False),
            ("1x9x64x4-40", 96, (FLASH, "c"), False),
            ("1x9x64x4-40", 96, (LIK, "b"), False),
            ("topk:10k2", None, (FLASH, "a"), False),
        ):
            later = row(shape, d=d)
            beyond = report_rows.given_up([tried, later], later, *method)
            self.assertEqual(beyond, "2x9x64x4-40" if expected else None, (shape, d, method))

    def test_a_call_that_takes_too_long_is_cut_off_even_where_it_catches_exceptions(self):
        def stubborn():
            while True:
                try:
                    while True:
                        pass
                except Exception:
                    continue

        with self.assertRaises(timing_process.OutOfTime), timing_process.time_limit(0.05):
            stubborn()
        with timing_process.time_limit(60):
            pass

    def test_the_command_is_shown_without_folders(self):
        arguments = ["--bench", "./bin/maxsim_bench_gpu", "--json", "/some/where/kernels.json"]
        shown = compare_peers.shown([*arguments, "--bench-args", "--sweep 200"])
        self.assertEqual(
            shown, "compare_peers.py --bench maxsim_bench_gpu --json kernels.json --bench-args '--sweep 200'"
        )


# Replaces the process that measures times. In row 1 (counted from 0), the method "stuck" never ends, and "crash" ends
# the process after it has reported a figure. A row of 3 documents ends the process, as missing inputs would. The first
# process that is started for a row after row 2 fails at once.
STAND_IN = """
import json, os, sys, time
path, first = sys.argv[sys.argv.index("--json") + 1], int(sys.argv[sys.argv.index("--time-from") + 1])
rows = json.load(open(path))["rows"]
say = lambda message: print(json.dumps(message), flush=True)
if first > 2 and not os.path.exists(path + ".failed"):
    open(path + ".failed", "w")
    sys.exit(5)
print("a peer's own words")
say({"software": {"torch": "2"}})
for n in range(first, len(rows)):
    say({"row": n})
    if rows[n]["shape"].startswith("1x3x"):
        sys.exit(4)
    known = [timing["method"] for timing in rows[n]["peer_methods"]]
    for method in ("fast", "stuck", "crash") if n == 1 else ("fast",):
        if method in known:
            continue
        begun = {"row": n, "peer": "P", "method": method}
        say(begun)
        if method == "stuck":
            time.sleep(60)
        if method == "crash":
            say({**begun, "so_far": {"eager_ms": 7.0, "graph_ms": None}})
            os._exit(1)
        say({**begun, "timing": {"eager_ms": n + 1.0, "graph_ms": None}})
"""


class TimeAllTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "kernels.json"
        stand_in = pathlib.Path(folder.name) / "stand_in.py"
        stand_in.write_text(STAND_IN)
        self.options = argparse.Namespace(
            json=str(self.path), seconds=60, seconds_per_method=2, budget=0.1, sweep_tuning_ms=None
        )
        own_command = lambda options: [sys.executable, str(stand_in), "--json", options.json]  # noqa: E731
        for module, name, value in ((watching, "GRACE_SECONDS", 1), (processes, "own_command", own_command)):
            patch = unittest.mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def time(self, shapes):
        rows = [{**row(shape, peers={}), "peer_methods": []} for shape in shapes]
        report_so_far = results(rows)
        report_rows.save(report_so_far, str(self.path))
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            self.came_up = watching.time_all(report_so_far, rows, self.options)
        self.software = report_so_far.get("software")
        return rows, output.getvalue()

    def test_goes_on_behind_methods_that_hang_or_crash_and_rows_without_inputs(self):
        rows, output = self.time(["1x1x8x8", "1x2x8x8", "1x3x8x8", "1x4x8x8"])
        self.assertEqual([r["peers"] for r in rows], [{"P": 1.0}, {"P": 2.0}, {}, {"P": 4.0}], output)
        outcomes = {timing["method"]: timing.get("error") for timing in rows[1]["peer_methods"]}
        self.assertEqual(outcomes, {"fast": None, "stuck": report_rows.STUCK, "crash": "the process ended"})
        self.assertEqual(rows[1]["peer_methods"][2]["eager_ms"], 7.0)
        self.assertEqual(rows[2]["peer_error"], "no inputs: the process ended")
        self.assertEqual((self.came_up, self.software), (True, {"torch": "2"}))
        self.assertIn("no peer is timed: the process ended before row 3", output)
        self.assertNotIn("left out", output)
        self.assertEqual(json.loads(self.path.read_text())["rows"][3]["peers"], {"P": 4.0})

    def test_ends_with_its_time_and_says_what_is_left_out(self):
        self.options.seconds, self.options.seconds_per_method = 3, 30
        rows, output = self.time(["1x1x8x8", "1x2x8x8", "1x4x8x8"])
        self.assertEqual([bool(r["peers"]) for r in rows], [True, True, False], output)
        errors = {timing["method"]: timing.get("error") for timing in rows[1]["peer_methods"]}
        self.assertEqual(errors, {"fast": None, "stuck": report_rows.NO_TIME_LEFT})
        self.assertIn("1 rows left out for want of time", output)

    def test_messages_without_end_do_not_outlast_the_time(self):
        timing = unittest.mock.Mock()
        timing.messages.get = lambda timeout: {"row": 0}
        begun, reason = watching.follow(timing, [], 60, time.monotonic() + 0.2, None)
        self.assertEqual((begun, reason), ({"row": 0}, report_rows.NO_TIME_LEFT))

    def test_peers_that_do_not_start_are_an_end(self):
        failing = [sys.executable, "-c", "raise SystemExit(1)"]
        with unittest.mock.patch.object(processes, "own_command", lambda _: failing):
            rows, output = self.time(["1x1x8x8"])
        self.assertEqual(rows[0]["peers"], {})
        self.assertFalse(self.came_up)
        self.assertIn("before row 0", output)

    def test_figures_of_an_earlier_run_stay_where_peers_do_not_start(self):
        earlier = results([row(peers={FLASH: 0.5})])
        report_rows.save(earlier, str(self.path))
        options = argparse.Namespace(**vars(self.options), bench=None, sweep_rows=0, compile_processes=0)
        failing = [sys.executable, "-c", "raise SystemExit(1)"]
        output = io.StringIO()
        with unittest.mock.patch.object(processes, "own_command", lambda _: failing):
            with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
                self.assertEqual(compare_peers.compare(options), 1)
        self.assertEqual(json.loads(self.path.read_text()), earlier)

    def test_figures_of_an_earlier_run_stay_where_it_is_interrupted_or_has_no_time(self):
        earlier = results([row(peers={FLASH: 0.5})])
        hangs = [sys.executable, "-c", "import time; time.sleep(60)"]
        for seconds, compiling, error in ((0.3, None, None), (60, KeyboardInterrupt, KeyboardInterrupt)):
            report_rows.save(earlier, str(self.path))
            options = argparse.Namespace(**vars(self.options), bench=None, sweep_rows=0, compile_processes=1)
            options.seconds = seconds
            output = io.StringIO()
            with contextlib.ExitStack() as stack:
                stack.enter_context(contextlib.redirect_stdout(output))
                stack.enter_context(contextlib.redirect_stderr(output))
                stack.enter_context(unittest.mock.patch.object(processes, "own_command", lambda _: hangs))
                compile_all = unittest.mock.Mock(side_effect=compiling)
                stack.enter_context(unittest.mock.patch.object(compare_peers, "compile_all", compile_all))
                if error:
                    stack.enter_context(self.assertRaises(error))
                compare_peers.compare(options)
            self.assertEqual(json.loads(self.path.read_text()), earlier, seconds)

    def test_a_benchmark_that_fails_leaves_the_results_that_there_are(self):
        earlier = results([row(peers={FLASH: 0.5})])
        report_rows.save(earlier, str(self.path))
        pathlib.Path(str(self.path) + ".bench").write_text("{}")  # left by a run that was interrupted
        options = argparse.Namespace(
            **vars(self.options), bench="false", bench_args=[], shapes="goals", inputs=".", sweep_rows=0
        )
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            self.assertEqual(compare_peers.compare(options), 1)
        self.assertEqual(json.loads(self.path.read_text()), earlier)


class TimeFromTest(unittest.TestCase):
    """Tests the process that measures times, without a device: which rows it reports, and how."""

    def said(self, rows, swept, time_from=0):
        peers, tuned = unittest.mock.Mock(), []
        methods = [(FLASH, "a", None), (LIK, "b", None)]
        peers.methods.return_value = methods
        peers.tune_for.side_effect = tuned.append

        def time_method(_torch, _timer, inputs, _prepare, _options, tell_timing):
            tell_timing({"eager_ms": 2.0, "graph_ms": None})
            self.timed.append((inputs, len(tuned)))
            return {"eager_ms": 2.0, "graph_ms": 1.0}

        self.timed = []
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "kernels.json"
            path.write_text(json.dumps({"rows": rows, "sweep": {"rows": swept}}))
            options = argparse.Namespace(
                json=str(path), sweep_rows=len(swept), time_from=time_from, sweep_tuning_ms=20, inputs=folder
            )
            modules = {name: unittest.mock.Mock(__version__=name + " 1") for name in ("torch", "triton")}
            output = io.StringIO()
            with unittest.mock.patch.dict(sys.modules, modules), contextlib.redirect_stdout(output):
                with unittest.mock.patch.multiple(
                    timing_process,
                    Peers=lambda _: peers,
                    Timer=unittest.mock.Mock(),
                    Inputs=lambda _torch, measured, _folder, fill: measured["shape"],
                    time_method_of=time_method,
                ):
                    self.assertEqual(timing_process.time_from(options), 0)
        return [json.loads(line) for line in output.getvalue().splitlines()]

    def test_says_what_it_begins_and_what_it_has(self):
        messages = self.said([{**row("1x1x8x8"), "peer_methods": []}], [])
        a, b = ({"row": 0, "peer": peer, "method": method} for peer, method in ((FLASH, "a"), (LIK, "b")))
        so_far, timing = {"eager_ms": 2.0, "graph_ms": None}, {"eager_ms": 2.0, "graph_ms": 1.0}
        self.assertEqual(
            messages,
            [{"software": {"torch": "torch 1", "triton": "triton 1"}}, {"row": 0}]
            + [a, {**a, "so_far": so_far}, {**a, "timing": timing}]
            + [b, {**b, "so_far": so_far}, {**b, "timing": timing}],
        )

    def test_goes_on_behind_what_is_known_already(self):
        known = {**row("1x2x8x8"), "peer_methods": [{"peer": FLASH, "method": "a", "error": report_rows.STUCK}]}
        messages = self.said([row("1x1x8x8"), known], [], time_from=1)
        self.assertEqual({message["row"] for message in messages[1:]}, {1})
        self.assertEqual({message["method"] for message in messages[2:]}, {"b"})

    def test_a_method_without_time_is_left_out_of_a_sweep_alone(self):
        stuck = {**row("1x2x8x8"), "peer_methods": [{"peer": FLASH, "method": "a", "error": report_rows.STUCK}]}
        messages = self.said([stuck, row("1x3x8x8")], [{**row("1x4x16x8-9")}])
        reasons = {
            (message["row"], message["method"]): message["timing"].get("error")
            for message in messages
            if "timing" in message
        }
        left_out = "not tried: no time for 1x2x8x8"
        self.assertEqual(reasons, {(0, "b"): None, (1, "a"): None, (1, "b"): None, (2, "a"): left_out, (2, "b"): None})
        tuned = {shape: bool(count) for shape, count in self.timed}
        self.assertEqual(tuned, {"1x2x8x8": False, "1x3x8x8": False, "1x4x16x8-9": True})


if __name__ == "__main__":
    unittest.main(verbosity=2)
