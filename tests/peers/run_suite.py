#!/usr/bin/env python3
"""Runs the public test suite of another package twice: with this package ("peer"), and with the package's replacement
in maxsim_torch.compat ("ours").

    tests/peers/run_suite.py flash_maxsim --out build/peers/flash_maxsim.json

The suite comes from the package's source distribution, which pip downloads. Without a network, --suite names a local
copy (a folder or a .tar.gz). The Python that runs this program needs pytest, torch, and whatever the peer needs
(triton). Each test file runs in a separate process, so that a fault of the device ends only this file. The test files
are unchanged. In the run with ours, the package's name is an alias of the replacement (import_alias.py), and the
package itself cannot be imported.

A file without pytest tests is run as a program. It passes if it exits with 0 and prints no line with FAIL, BAD, BROKEN
or EXCEPTION, the words that such programs use for errors. If a suite compares with PyLate, and PyLate is not installed,
the suite uses the functions in stand_ins/.

The program writes JSON to --out, and tables to the same path with the suffix .md. It writes both again after each test
file. The exit status is 1 if a test passes with the peer and fails with ours, otherwise 0. docs/performance/torch has
this JSON without the tests that pass with both (bench/reduce_reports.py). --join does not accept such reduced files.
"""

import argparse
import ast
import dataclasses
import datetime
import fnmatch
import importlib.util
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

from suite_tables import count, differences, tables

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SIDES = ("peer", "ours")
VERDICT = re.compile(r"\b(FAIL|BAD|BROKEN|EXCEPTION)\b")
# A program that imports modules and then runs a file. Its first argument is the file, the others are the modules.
RUN_PROGRAM = """
import importlib, runpy, sys
for name in sys.argv[2:]: importlib.import_module(name)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@dataclasses.dataclass(frozen=True)
class Peer:
    """A package for which maxsim_torch.compat has a replacement. `leave_out` maps patterns of files in its suite that
    are not run to the reason."""

    requirement: str
    drop_in: str
    leave_out: "dict[str, str]" = dataclasses.field(default_factory=dict)
    stand_ins: "tuple[str, ...]" = ()


PEERS = {
    "flash_maxsim": Peer(
        "flash-maxsim==0.3.0",
        "maxsim_torch.compat.flash_maxsim",
        stand_ins=("pylate",),
    ),
    "late_interaction_kernels": Peer(
        "late-interaction-kernels==0.4.5",
        "maxsim_torch.compat.late_interaction_kernels",
        leave_out={
            "test_mps*.py": "kernels for Metal",
            "test_*_mps.py": "kernels for Metal",
            "test_autotune*.py": "how Triton tunes its kernels",
            "test_compile_cache.py": "caches of what Triton compiled",
        },
    ),
}


def unpack(given, requirement, into):
    """Returns the folder of a source distribution: `given` if it is a folder, otherwise the unpacked archive `given`.
    If `given` is None, pip downloads the archive."""
    if given is not None and given.is_dir():
        return given
    if given is None:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--no-binary",
            ":all:",
            "-d",
            into,
            requirement,
        ]
        subprocess.run(command, check=True, stdout=sys.stderr)
        given = next(pathlib.Path(into).glob("*.tar.gz"))
    with tarfile.open(given) as archive:
        # Python before 3.11.4 has no filters for extractall().
        archive.extractall(into, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return next(path for path in pathlib.Path(into).iterdir() if path.is_dir())


class Suite:
    """A copy of a suite in a folder, next to the folders from which the runs with peer and with ours import."""

    def __init__(self, package, drop_in, source, folder, stand_ins):
        holders = [path for path in (source / package, source / "src" / package) if path.is_dir()]
        if not holders:
            sys.exit(f"run_suite: {source} has no package {package}")
        self.folder = folder / "suite"
        ignored = {holders[0].resolve()}
        shutil.copytree(source, self.folder, ignore=lambda at, names: [
            name for name in names if (pathlib.Path(at) / name).resolve() in ignored or name in ("__pycache__", ".git")
        ])  # fmt: skip
        shutil.copytree(holders[0], folder / "peer" / package)
        shim = folder / "ours" / package
        shim.mkdir(parents=True)
        (shim / "__init__.py").write_text(f"import import_alias\n\nimport_alias.install({package!r}, {drop_in!r})\n")
        self.paths = {"peer": [folder / "peer", HERE], "ours": [folder / "ours", HERE, ROOT / "client" / "torch"]}
        self.version = "?"
        information = source / "PKG-INFO"
        if information.exists():
            # With this file, importlib.metadata behaves as if the package were installed.
            self.version = re.search(r"^Version: (\S+)", information.read_text(encoding="utf-8"), re.M).group(1)
            metadata = folder / "metadata" / f"{package}-{self.version}.dist-info"
            metadata.mkdir(parents=True)
            shutil.copy(information, metadata / "METADATA")
            for paths in self.paths.values():
                paths.append(metadata.parent)
        self.stood_in = [name for name in stand_ins if importlib.util.find_spec(name) is None]
        if self.stood_in:
            for paths in self.paths.values():
                paths.append(HERE / "stand_ins")

    def files(self):
        """Returns the paths of the test files, relative to the suite's folder."""
        return sorted(path.relative_to(self.folder) for path in (self.folder / "tests").rglob("test_*.py"))

    def has_tests(self, file):
        """Returns whether pytest would find tests in a file."""
        statements = ast.parse((self.folder / file).read_text(encoding="utf-8")).body
        return any(
            isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and statement.name.lower().startswith("test")
            for statement in statements
        )


class Runner:
    def __init__(self, suite, options):
        self.suite = suite
        self.timeout_s = options.timeout
        self.modules = ["cuda_on_cpu"] if options.on_cpu else []
        self.library = options.library

    def environment(self, side, report):
        environment = dict(os.environ, PEER_SUITE_REPORT=str(report), PYTHONDONTWRITEBYTECODE="1")
        given = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        environment["PYTHONPATH"] = os.pathsep.join([*map(str, self.suite.paths[side]), *given])
        if self.library is not None:
            environment["MAXSIM_LIBRARY"] = str(self.library.resolve())
        return environment

    def start(self, command, side, report):
        """Runs a command. Returns its exit status (None if it exceeded the time limit) and its output."""
        try:
            ended = subprocess.run(
                [sys.executable, *command], cwd=self.suite.folder, env=self.environment(side, report), text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", timeout=self.timeout_s,
            )  # fmt: skip
            return ended.returncode, ended.stdout
        except subprocess.TimeoutExpired as late:
            output = late.stdout or b""
            return None, output.decode(errors="replace") if isinstance(output, bytes) else output

    def run(self, side, file):
        """Runs a file. Returns the outcomes of its tests, {test: {"outcome", "error"}}. A program counts as one test
        with the name of the file."""
        with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as report:
            if not self.suite.has_tests(file):
                status, output = self.start(["-c", RUN_PROGRAM, str(file), *self.modules], side, report.name)
                return {str(file): judge_program(status, output)}
            plugins = [argument for name in ("report_plugin", *self.modules) for argument in ("-p", name)]
            command = ["-m", "pytest", "-q", *plugins, "-p", "no:cacheprovider", f"--rootdir={self.suite.folder}"]
            status, output = self.start([*command, str(file)], side, report.name)
            return judge_tests(str(file), status, output, [json.loads(line) for line in report])


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def how_it_ended(status, output):
    return "ran past its time" if status is None else f"ended with status {status}: {last_line(output)}"


def judge_program(status, output):
    """Returns the outcome of a program."""
    if status != 0:
        return {"outcome": "failed", "error": how_it_ended(status, output)}
    verdicts = [line.strip()[:300] for line in output.splitlines() if VERDICT.search(line)]
    return {"outcome": "failed" if verdicts else "passed", "error": verdicts[0] if verdicts else ""}


def judge_tests(file, status, output, lines):
    """Returns the outcomes of a file's tests, from the lines that report_plugin.py wrote. If the process died, the test
    that began but did not end was the cause."""
    results = {line["test"]: {"outcome": line["outcome"], "error": line.get("error", "")} for line in lines}
    for result in results.values():
        if result["outcome"] == "started":
            result.update(outcome="failed", error=how_it_ended(status, output))
    if not results:
        results[file] = {"outcome": "failed", "error": how_it_ended(status, output)}
    return results


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help=f"the package's name in Python: {', '.join(PEERS)}, or another with --drop-in")
    parser.add_argument("--out", type=pathlib.Path, required=True, metavar="FILE.json")
    parser.add_argument(
        "--suite", type=pathlib.Path, help="source distribution: a folder or a .tar.gz (default: pip's)"
    )
    parser.add_argument("--drop-in", help="the module that stands in for the package")
    parser.add_argument("--requirement", help="what pip fetches, such as flash-maxsim==0.3.0")
    parser.add_argument("--leave-out", action="append", default=[], metavar="PATTERN", help="more files to leave out")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="files to run (%(default)s)")
    parser.add_argument(
        "--join", type=pathlib.Path, nargs="+", default=[], metavar="FILE.json",
        help="results of other files, to keep; with --only none, to join and run nothing",
    )  # fmt: skip
    parser.add_argument("--side", choices=SIDES, help="run with one of the two alone")
    parser.add_argument("--library", type=pathlib.Path, help="libmaxsim.so (default: $MAXSIM_LIBRARY, or the wheel's)")
    parser.add_argument("--timeout", type=float, default=600, metavar="S", help="for a file, in seconds (%(default)s)")
    parser.add_argument("--on-cpu", action="store_true", help='let the device "cuda" be the CPU, to find errors early')
    options = parser.parse_args()
    known = PEERS.get(options.package, Peer("", ""))
    options.drop_in = options.drop_in or known.drop_in
    options.requirement = options.requirement or known.requirement
    if not options.drop_in or not (options.suite or options.requirement):
        parser.error(f"{options.package} is not known: --drop-in and --suite or --requirement are needed")
    options.left_out = {**known.leave_out, **dict.fromkeys(options.leave_out, "asked for")}
    options.stand_ins = known.stand_ins
    return options


def describe_machine():
    """Returns the versions and the device of the test runs. Uses a separate process, so that this one does not occupy
    the device."""
    machine = {"device": "no GPU", "torch": None, "python": sys.version.split()[0]}
    if importlib.util.find_spec("torch") is None:
        return machine
    program = (
        "import json, torch\n"
        "found = {'device': torch.cuda.get_device_name()} if torch.cuda.is_available() else {}\n"
        "print(json.dumps({**found, 'torch': torch.__version__}))"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE).stdout
    return {**machine, **json.loads(found)}


def left_out(suite, options):
    """Returns {file: reason} for the files that are not run."""
    return {
        str(file): reason
        for file in suite.files()
        for pattern, reason in options.left_out.items()
        if fnmatch.fnmatch(file.name, pattern)
    }


def run_all(suite, options, results):
    """Runs the suite, and yields after each file. Adds {test: {side: {"outcome", "error"}}} to `results`."""
    runner = Runner(suite, options)
    without = left_out(suite, options)
    for file in suite.files():
        if str(file) in without or not fnmatch.fnmatch(file.name, options.only):
            continue
        for side in SIDES if options.side is None else (options.side,):
            begin = time.monotonic()
            outcomes = runner.run(side, file)
            for test, result in outcomes.items():
                results.setdefault(test, {})[side] = result
            passed = sum(result["outcome"] == "passed" for result in outcomes.values())
            print(f"{file} {side}: {passed} of {len(outcomes)} passed, {time.monotonic() - begin:.0f} s", flush=True)
        yield


def write_summary(suite, options, machine, results):
    """Writes the JSON and the page of tables. Returns the summary that both contain."""
    summary = {
        "package": options.package,
        "version": suite.version,
        "drop_in": options.drop_in,
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        **machine,
        "sides": SIDES if options.side is None else (options.side,),
        "on_cpu": options.on_cpu,
        "stand_ins": suite.stood_in,
        "left_out": left_out(suite, options),
        "programs": [str(file) for file in suite.files() if not suite.has_tests(file)],
        "counts": count(results),
        "lost": [test for test, _ in differences(results)["lost"]],
        "tests": results,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    options.out.with_suffix(".md").write_text(tables(summary), encoding="utf-8")
    return summary


def main():
    options = parse_options()
    results = {}
    earlier = [json.loads(path.read_text(encoding="utf-8")) for path in options.join]
    machines = [{name: one[name] for name in ("device", "torch", "python")} for one in earlier]
    if any(machine != machines[0] for machine in machines):
        sys.exit(f"run_suite: results of several machines are not joined: {machines}")
    for one in earlier:
        results.update(one["tests"])
    with tempfile.TemporaryDirectory(prefix="peer-suite-") as folder:
        folder = pathlib.Path(folder)
        (folder / "source").mkdir()
        source = unpack(options.suite, options.requirement, folder / "source")
        suite = Suite(options.package, options.drop_in, source, folder, options.stand_ins)
        # If this run only joins existing results, describes the machine on which these were made.
        machine = machines[0] if machines and options.only == "none" else describe_machine()
        # Writes the summary after each file, so that there is one even if a later file takes too long.
        for _ in run_all(suite, options, results):
            write_summary(suite, options, machine, results)
        summary = write_summary(suite, options, machine, results)
    print(tables(summary))
    return 1 if summary["lost"] and options.side is None else 0


if __name__ == "__main__":
    sys.exit(main())
