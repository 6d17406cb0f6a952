"""Runs every case of tests/conformance/cases with the drivers of the clients, against real servers
(docs/internals/conformance.md).

  conformance_test.py FOLDER_OF_THE_PROGRAMS [--driver NAME[=COMMAND]]... [--case NAME] [--record]

Without --driver, runs all drivers that are scripts. --record computes the results with the oracle, writes them into the
files of the cases, and runs no driver.
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import threading

import case_files
import outcomes
from drivers import drivers
from oracle import Oracle

ANSWER_LIMIT_S = 600  # only ends a driver that hangs


def record(data):
    """Writes the expected result into every step that has no expected error."""
    for method, path in case_files.case_paths().items():
        cases = case_files.read_cases(path)
        for case in cases:
            for given, step in zip([case, *case.get("then", [])], expected_steps(data, case, method)):
                if "error" not in step and step["method"] not in ("info", "health"):
                    given["result"] = case_files.without_large_integers(step["computed"])
        case_files.write_json(path, cases)


def expected_steps(data, case, method):
    """Returns the steps of a case. Each step without an error gets the member `computed`, the oracle's result."""
    oracle = Oracle(data)
    if case.get("live"):
        oracle.start_live(live_description(data, case))
    steps = []
    for step in case_files.steps_of(case, method):
        if "error" not in step and step["method"] not in ("info", "health"):
            step["computed"] = oracle.answer(step["method"], case_files.with_integers(step["arguments"]))
        steps.append(step)
    return steps


def check_recorded(data):
    """Returns the cases whose file does not have the results that the oracle computes."""
    wrong = []
    for method, path in case_files.case_paths().items():
        for case in case_files.read_cases(path):
            for step in expected_steps(data, case, method):
                computed = case_files.without_large_integers(step.get("computed"))
                if computed is not None and json.loads(json.dumps(computed)) != step.get("result"):
                    wrong.append(f"{method}: {case['name']}")
    return wrong


def live_description(data, case):
    """Returns fields and documents of the case's live collection."""
    return {**data["live"], **(case["live"] if isinstance(case["live"], dict) else {})}


class Driver:
    """A driver's process."""

    def __init__(self, command, addresses):
        servers = [f"{name}={','.join(both)}" for name, both in addresses.items()]
        self._process = subprocess.Popen(
            [*map(str, command), *servers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, line):
        """Sends one call, and returns the driver's answer."""
        timer = threading.Timer(ANSWER_LIMIT_S, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(line, ensure_ascii=False) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        finally:
            timer.cancel()
        if not answer:
            raise RuntimeError(f"the driver ended, or did not answer within {ANSWER_LIMIT_S} s")
        return json.loads(answer)

    def stop(self):
        """Ends the driver by closing its input. Returns its exit status."""
        with contextlib.suppress(BrokenPipeError):  # The driver has ended, and has not read what is still buffered.
            self._process.stdin.close()
        try:
            return self._process.wait(timeout=ANSWER_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._process.stdout.close()


def client_options(given, world):
    """Returns the client options of a case as drivers get them."""
    from world import TOKENS

    options = {"server": "plain", "max_attempts": 1, "timeout_ms": ANSWER_LIMIT_S * 1000, **given}
    if "token" in options:
        options["token"] = TOKENS.get(options["token"], options["token"])
    if "ca_file" in options:
        options["ca_file"] = str({"server": world.ca_file, "other": world.other_ca_file}[options["ca_file"]])
    return options


def run_case(driver, world, case, method, chosen):
    """Runs one case. Returns "passed", "not offered", or an explanation that begins with "failed"."""
    transport = chosen.transport
    if case.get("transport", transport) != transport:
        return "not offered"
    if case.get("live"):
        world.start_live(case_files.with_integers(live_description(world.data, case)))
    for i, step in enumerate(case_files.steps_of(case, method)):
        refusal = step.get("refusal", {})
        world.refusing.refuse(step["method"], refusal)
        line = {"case": case["name"], "client": client_options(case.get("client", {}), world)}
        answer = driver.ask({**line, "method": step["method"], "arguments": step["arguments"]})
        if "unsupported" in answer:
            if step["method"] in chosen.left_out:
                return "not offered"
            return f"failed at step {i + 1}: {step['method']} is not in drivers.LEFT_OUT[{chosen.name!r}]: {answer}"
        problem = outcomes.difference(step["method"], step, answer, transport)
        if not problem and "attempts" in refusal:
            problem = attempts_problem(refusal, world.refusing.call_times())
        if problem:
            return f"failed at step {i + 1}, {step['method']}: {problem}"
    return "passed"


def attempts_problem(refusal, times):
    """Checks the number of calls that the client made, and that it waited before each retry as long as the server asked
    for. Returns a problem or None."""
    if len(times) != refusal["attempts"]:
        return f"expected {refusal['attempts']} attempts, the client made {len(times)}"
    least = refusal.get("pushback_ms", refusal.get("retry_after_ms", 0)) / 1000
    gaps = [after - before for before, after in zip(times, times[1:])]
    early = [gap for gap in gaps if gap < least - 0.002]
    return f"a retry came {early[0]:.3f} s after the refusal, which asked for {least} s" if early else None


def run_driver(chosen, programs, data, only):
    """Runs all cases with one driver, on servers that only this driver uses. Returns outcomes by (method, name of the
    case)."""
    from world import World

    name, results = chosen.name, {}
    with tempfile.TemporaryDirectory(prefix=f"maxsim-conformance-{name}-") as folder, contextlib.ExitStack() as stack:
        world = World(programs, pathlib.Path(folder), data)
        stack.callback(world.stop)
        driver = Driver(chosen.command, world.addresses)
        try:
            for method, path in case_files.case_paths().items():
                for case in case_files.read_cases(path):
                    if only and only != case["name"]:
                        continue
                    outcome = run_case(driver, world, case, case.get("method", method), chosen)
                    results[method, case["name"]] = outcome
                    if outcome.startswith("failed"):
                        print(f"{name}: {method}: {case['name']}: {outcome}", flush=True)
        finally:
            status = driver.stop()
        if status != 0:
            results["driver", "exit status"] = f"failed with the status {status}"
            print(f"{name}: the driver ended with the status {status}")
    return results


def print_table(results):
    """Prints how many cases each driver passed, by method, of those that it offers."""
    methods = list(case_files.case_paths())
    rows = [["method", "cases", *results]]
    for method in methods:
        cases = {key for outcomes_of in results.values() for key in outcomes_of if key[0] == method}
        row = [method, str(len(cases))]
        for found in results.values():
            own = [outcome for (one, _), outcome in found.items() if one == method]
            offered = [outcome for outcome in own if outcome != "not offered"]
            left_out = f" ({len(own) - len(offered)} not offered)" if len(own) > len(offered) else ""
            row.append(f"{offered.count('passed')} of {len(offered)}{left_out}")
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--driver", action="append", metavar="NAME[=COMMAND]")
    parser.add_argument("--case", help="runs only the cases of this name")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    data = case_files.read_data()
    if options.record:
        return record(data)
    wrong = check_recorded(data)
    if wrong:
        sys.exit("the oracle computes other results than these cases have:\n" + "\n".join(wrong))
    chosen = drivers.choose(options.driver)
    if not chosen:
        sys.exit("no driver was chosen")
    results = {
        driver.name: run_driver(driver, options.programs.resolve(), data, options.case) for driver in chosen
    }
    print_table(results)
    everything = {key for found in results.values() for key in found}
    idle = [key for key in everything if all(found.get(key) == "not offered" for found in results.values())]
    failed = sum(outcome.startswith("failed") for found in results.values() for outcome in found.values())
    for method, name in sorted(idle):
        print(f"no driver ran {method}: {name}")
    if failed or idle:
        sys.exit(f"{failed} failures, {len(idle)} cases that no driver ran")
    print(f"{len(everything)} cases, {len(results)} drivers: all passed")


if __name__ == "__main__":
    main()
