"""Causes one kind of fault again and again while clients write to and read a live collection, and checks all results.

    chaos_suite.py FOLDER_OF_THE_PROGRAMS [--fault NAME] [--versions none|all] [--requests 100000] [--writes 100000]
                   [--rate 500] [--short] [--seed S] [--json] [--list]

Two groups of three replicas follow one stream of three NATS servers, and clients use two routers. For each fault (all
of chaos_faults.py, or those given by --fault), the suite starts new servers twice: for writes with and without
versions. The fault comes and goes until --requests requests are answered and --writes documents written. Then the suite
checks everything against an oracle that reads the stream:

- Every acknowledged write is in the stream exactly once, with the acknowledged outcome, and every replica has applied
  it.
- No write whose call failed took effect after an acknowledged write of the same document that was sent later.
- Every answer has the documents and exact scores that each group had at one sequence.
- No read failed, because each group always has a reachable replica. A client asks the other router if its router was
  killed.
- Writes failed only with the codes that the fault allows, and succeeded again after the fault.
- While a replica does not answer, the 99th percentile of the duration of reads is at most 1.5 s.
- No replica reported that its stream was lost, wrong or too short.

Prints one line per fault. --short sends a few hundred requests and writes, and causes each fault once. Network faults
need root, to create network namespaces. MAXSIM_TEST_SEED also sets the seed.
"""

import contextlib
import functools
import random
import sys
import time
import traceback

import nodes
import tally
import trials
import wires
from chaos_faults import FAULTS, give_disks_that_fill
from live_load import Readers

VERSIONS = {"none": 0.0, "all": 1.0}  # share of writes with a version
ROUTERS, CLIENTS, CALM_S = 2, 8, 2  # CLIENTS read, and as many write
SHORT = {"requests": 300, "writes": 300, "rate": 50, "lasting": 4}
LEARNING_S = 3  # in which the routers learn how long answers take


class FaultRun:
    """Lets one fault happen while clients read and write."""

    def __init__(self, trial, fault, versions, arguments):
        self.trial, self.world, self.cluster = trial, trial.world, trial.world.cluster
        self.fault, self.arguments = fault, arguments
        self.chooser = random.Random(arguments.seed)
        self.writers = trial.writers(
            arguments.seed,
            arguments.rate,
            CLIENTS,
            share_versioned=VERSIONS[versions],
            codes=fault.write_codes,
        )
        self.readers = Readers(
            self.world, trial.questions, arguments.seed + 1, arguments.rate, CLIENTS, may_be_behind=fault.stops_nats
        )
        self.windows = []  # begin and end of each time that the fault lasted

    # For the functions of chaos_faults.py.

    def one(self):
        """Returns a replica."""
        return self.chooser.choice(self.cluster.replicas())

    @contextlib.contextmanager
    def lasting(self, what):
        """Notes that the fault lasts as long as the with-statement."""
        trials.tell(what)
        self.readers.event = what
        begin = time.monotonic()
        yield
        self.windows.append((begin, time.monotonic()))

    def wait(self):
        time.sleep(self.arguments.lasting)

    def written_while_waiting(self):
        """Returns the number of documents that were sent and acknowledged while it waited."""
        begin = time.monotonic()
        self.wait()
        return self.writers.since(begin)

    # The run.

    def run(self):
        """Returns what happened, as JSON may have it."""
        with self.writers, self.readers:
            begin = time.monotonic()
            time.sleep(LEARNING_S)
            while not self.windows or self._is_too_little():
                self.fault.happen(self)
                self.trial.wait_recovered()
                self.writers.wait_written()
                self.readers.expect_no_problem()
                time.sleep(self.chooser.uniform(0, CALM_S))
            end = time.monotonic()
        self.writers.expect_no_problem()
        self.readers.expect_no_problem()
        return self._check(begin, end)

    def _is_too_little(self):
        is_read = len(self.readers.kept) >= self.arguments.requests
        return not is_read or self.trial.ledger.count < self.arguments.writes

    def _check(self, begin, end):
        self.trial.check()
        self.readers.check(self.trial.known)
        for router in self.cluster.routers:
            bad = router.metrics().get("maxsim_group_bad_answers_total", 0)
            assert not bad, f"{router.name} refused {bad:g} answers of replicas that did not fit their request"
        found = {
            "seconds": round(end - begin, 1),
            "times": len(self.windows),
            "requests": tally.summary(self.readers.calls, begin, end),
            "writes": tally.summary(self.writers.calls, begin, end),
            "requests_during_fault": tally.summary(tally.during(self.readers.calls, self.windows), begin, end),
            "messages": self.trial.known.last,
            "reads": dict(self.trial.questions.counts),
            "doubts": self.trial.watch.num_doubts,
        }
        del found["requests_during_fault"]["longest_pause_s"]  # between faults there are none of these calls
        p99_s, limit_s = found["requests_during_fault"]["p99_ms"] / 1e3, self.fault.max_p99_s
        assert limit_s is None or p99_s <= limit_s, f"the 99th percentile of reads during the fault is {p99_s:.3f} s"
        return found


def run_fault(name, versions, arguments):
    fault, net, prepare = FAULTS[name], None, None
    with nodes.workspace(f"chaos-{name}") as folder, contextlib.ExitStack() as stack:
        if fault.needs_switch:
            net = stack.enter_context(wires.Switch(trials.names_of_servers(ROUTERS), arguments.seed))
            net.set(0, 0)
        if fault.needs_disk:
            prepare = functools.partial(give_disks_that_fill, stack)
        trial = stack.enter_context(trials.started(arguments, folder, net, ROUTERS, prepare))
        trial.wait_recovered()
        return {"collection": trial.world.name} | FaultRun(trial, fault, versions, arguments).run()


def line(name, versions, found, seed):
    slowest = found["requests_during_fault"]
    return (
        f"{name}, {versions} versioned, seed {seed}: {tally.line('requests', found['requests'])}; during the fault p50 "
        f"{slowest['p50_ms']} ms, p99 {slowest['p99_ms']} ms; {tally.line('documents written', found['writes'])}; "
        f"{found['times']} times in {found['seconds']} s"
    )


def run_and_report(name, versions, arguments):
    """Returns whether the fault passed."""
    more = ["--fault", name, "--versions", versions, "--requests", arguments.requests, "--writes", arguments.writes]
    more += ["--rate", arguments.rate, "--lasting", arguments.lasting]
    result = {"trial": "chaos_suite", "fault": name, "versions": versions, "seed": arguments.seed}
    try:
        # Servers' logs are printed after a failure; they must not come among the results.
        with trials.repeatable(arguments, *more), contextlib.redirect_stdout(sys.stderr):
            found = run_fault(name, versions, arguments)
    except Exception as error:  # pylint: disable=broad-except  the other faults follow
        traceback.print_exc()
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        text = f"{name}, {versions} versioned, seed {arguments.seed}: FAILED: {problem}"
        trials.report(arguments, text, result | {"passed": False, "problem": problem})
        return False
    trials.report(arguments, line(name, versions, found, arguments.seed), result | {"passed": True} | found)
    return True


def parse_arguments():
    parser = trials.parser(__doc__)
    parser.add_argument("--fault", action="append", choices=list(FAULTS))
    parser.add_argument("--versions", choices=list(VERSIONS))
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--writes", type=int, default=100_000, help="documents to write")
    parser.add_argument("--rate", type=float, default=500, help="requests, and documents written, a second")
    parser.add_argument("--lasting", type=float, default=6, help="seconds that each fault lasts")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the names of the faults, and end")
    arguments = parser.parse_args()
    if arguments.short:
        vars(arguments).update(SHORT)
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(FAULTS))
        return
    trials.tell(f"MAXSIM_TEST_SEED={arguments.seed}")
    reason, failed = wires.why_no_switch(), 0
    for name in arguments.fault or FAULTS:
        if FAULTS[name].needs_switch and reason:
            trials.tell(f"skipped: {name}, which needs namespaces that this machine does not let one make: {reason}")
            continue
        for versions in [arguments.versions] if arguments.versions else VERSIONS:
            failed += not run_and_report(name, versions, arguments)
    if failed:
        sys.exit(f"{failed} faults failed")


if __name__ == "__main__":
    main()
