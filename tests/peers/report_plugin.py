"""A pytest plugin that writes the outcome of each test as a line of JSON to the file $PEER_SUITE_REPORT, as soon as the
test ends. So the lines remain if the process dies later."""

import json
import os

_RANK = {"passed": 0, "xfailed": 1, "skipped": 2, "failed": 3}
_outcomes = {}


def _write(**line):
    with open(os.environ["PEER_SUITE_REPORT"], "a", encoding="utf-8") as report:
        report.write(json.dumps(line) + "\n")


def _error(report):
    """Returns an error's message in one line, without the values that pytest adds to a failed assertion."""
    if isinstance(report.longrepr, tuple):  # a skipped test has (file, line, reason)
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(report.longrepr or "") if crash is None else crash.message
    lines = [line.removeprefix("E").strip() for line in text.splitlines() if not line.startswith(" +")]
    # If there is no crash (for example because a file cannot be imported), the error is in the report's last line.
    return " ".join(line for line in lines if line)[:300] if crash is not None else lines[-1][:300] if lines else ""


def _outcome(report):
    if hasattr(report, "wasxfail"):
        return "passed" if report.outcome == "passed" else "xfailed"
    return report.outcome


def pytest_collectreport(report):
    if report.outcome == "failed" or (report.outcome == "skipped" and report.nodeid.endswith(".py")):
        _write(test=report.nodeid, outcome=report.outcome, error=_error(report))


def pytest_runtest_logstart(nodeid, location):
    _outcomes[nodeid] = ("passed", "")
    _write(test=nodeid, outcome="started")


def pytest_runtest_logreport(report):
    outcome = _outcome(report)
    if _RANK[outcome] > _RANK[_outcomes[report.nodeid][0]]:
        _outcomes[report.nodeid] = (outcome, _error(report))


def pytest_runtest_logfinish(nodeid, location):
    outcome, error = _outcomes.pop(nodeid)
    _write(test=nodeid, outcome=outcome, error=error)
