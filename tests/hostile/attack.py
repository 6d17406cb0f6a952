"""Attacks maxsimd for some time, and reports the effects.

    attack.py NAME|all [--seconds 10] [--programs build/release/bin] [--without-tokens] [--descriptors 64] [--threads 300]
                       [--memory-mib 1024] [--seed N]

NAME is one of ATTACKS in attacks.py. Starts a server with the given limits on free ports, serving a new collection.
Prints the peaks of memory, threads and descriptors, the slowest probe, and whether the server answers after the attack.
Exits with 1 if one of these is out of bounds.
"""

import argparse
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from maxsimd import MIB, Limits, Maxsimd, Questions, Watch, build_collection, build_sparse_collection, use_package

HERE = pathlib.Path(__file__).resolve().parent
# An attack continues until the server has answered each probe (a health call) ANSWERS times. A slow machine may need
# long for that. A server that does not answer under attack fails after ANSWERS_LIMIT_S.
ANSWERS, ANSWERS_LIMIT_S = 10, 60.0
SETTLE_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0  # the server's grace is 5 s
# How much more the server may use after an attack than before. Thread pools keep threads. The C library keeps freed
# memory: it kept 550 MiB of 600 MiB of unfinished messages, but no more after another 3 GiB.
LEFT_MIB, LEFT_THREADS, LEFT_DESCRIPTORS = 700, 16, 8
# The most that clients may cause the server to log: bytes in total plus bytes per second. Clients must not be able to
# fill the disk with log lines.
LOG_BYTES, LOG_BYTES_A_SECOND = 1 << 20, 1 << 16
# These attacks come from an administrator, and may cause more log lines, because operators need a line for each load.
LOGGED = ("sparse_loads",)


class Range:
    """The stubs, collections and requests that all attacks of a run share."""

    def __init__(self, programs, folder, seed):
        self.programs, self.folder = pathlib.Path(programs).resolve(), pathlib.Path(folder)
        self.folder.chmod(0o755)  # the server may run as another user
        use_package()
        self.collection = self.folder / "corpus"
        build_collection(self.programs, self.collection, seed)
        self.sparse = self.folder / "sparse"
        self.has_sparse = build_sparse_collection(self.sparse)
        self.questions = Questions(seed)
        self.large_request = self.folder / "large-request"
        self.large_request.write_bytes(self.questions.large_request())

    def attacker_options(self, server, seconds):
        return {
            "grpc_port": server.grpc_port,
            "http_port": server.http_port,
            "token": server.token,
            "seconds": seconds,
            "large_request": str(self.large_request),
            "sparse_collection": str(self.sparse),
        }


class Outcome:
    """The effect of one attack on the server."""

    def __init__(self, name, seconds):
        self.name, self.seconds = name, seconds
        self.before = self.peak = self.after = None
        # For each kind of probe: the longest time in seconds, and the number of answers during the attack.
        self.slowest, self.answered = {}, {}
        self.report = {}
        self.log_bytes = 0
        self.answer = ""  # why a call after the attack failed
        self.ready = 0  # the status of /readyz after the attack
        self.reload = ""  # why a reload after the attack failed
        self.exit_code, self.stop_s = None, 0.0

    def problems(self, memory_mib, limits):
        found = []
        if self.exit_code != 0:
            found.append(f"SIGTERM: exit code {self.exit_code} after {self.stop_s:.1f} s")
        if self.answer and self.ready == 200:
            found.append(f"a call afterwards failed ({self.answer}), and /readyz says 200")
        elif self.answer:
            found.append(f"a call afterwards failed ({self.answer}); /readyz says {self.ready}")
        if self.reload:
            found.append(f"a reload afterwards failed ({self.reload})")
        if self.peak.rss_bytes > memory_mib * MIB:
            found.append(f"it took {self.peak.rss_bytes / MIB:.0f} MiB, more than {memory_mib}")
        if self.name not in LOGGED and self.log_bytes > LOG_BYTES + self.seconds * LOG_BYTES_A_SECOND:
            found.append(f"it logged {self.log_bytes} bytes")
        if limits.threads is not None and self.peak.threads >= limits.threads:
            found.append(f"it had {self.peak.threads} threads, its limit")
        for name, count in self.answered.items():
            if count < ANSWERS:
                found.append(f"the probe {name} was answered {count} times in {self.seconds:.0f} s of the attack")
        if self.after.rss_bytes > self.before.rss_bytes + LEFT_MIB * MIB:
            found.append(f"memory is not given back: {self.before} before, {self.after} after")
        if self.after.threads > self.before.threads + LEFT_THREADS:
            found.append(f"threads stay: {self.before} before, {self.after} after")
        if self.after.descriptors > self.before.descriptors + LEFT_DESCRIPTORS:
            found.append(f"descriptors stay: {self.before} before, {self.after} after")
        return found

    def __str__(self):
        probes = ", ".join(f"{name} {1000 * s:.0f} ms" for name, s in self.slowest.items())
        return (
            f"before {self.before}; peak {self.peak}; after {self.after}; slowest probe {probes}; attacked for {self.seconds:.1f} s; "
            f"log {self.log_bytes} bytes; stop {self.exit_code} in {self.stop_s:.1f} s; {json.dumps(self.report)}"
        )


def reload_corpus(server):
    """Returns why a reload failed, or ""."""
    import grpc
    from maxsim.v1 import admin_pb2, admin_pb2_grpc  # generated

    with server.channel() as channel:
        try:
            admin_pb2_grpc.AdminStub(channel).ReloadCollection(
                admin_pb2.ReloadCollectionRequest(name="corpus"), metadata=server.metadata(), timeout=60
            )
        except grpc.RpcError as error:
            return f"{error.code().name}: {error.details()}"
    return ""


def settle(server, before, left_mib=LEFT_MIB, left_descriptors=LEFT_DESCRIPTORS, limit_s=SETTLE_LIMIT_S):
    """Waits until the server uses about as much as before, at most `limit_s` seconds. Returns what the server uses
    then."""
    until = time.monotonic() + limit_s
    while True:
        now = server.usage()
        if time.monotonic() > until or (
            now.rss_bytes <= before.rss_bytes + left_mib * MIB
            and now.threads <= before.threads + LEFT_THREADS
            and now.descriptors <= before.descriptors + left_descriptors
        ):
            return now
        time.sleep(0.1)


def start_attacker(site, server, name, seconds, grpc_port=None):
    """Starts a process that attacks for at least `seconds`, and then until its standard input ends. At the end the
    process prints what it has done."""
    options = site.attacker_options(server, seconds) | {"grpc_port": grpc_port or server.grpc_port}
    command = [sys.executable, "-B", str(HERE / "attacks.py"), name, json.dumps(options)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_attack(site, name, seconds, limits, with_tokens=True, memory_mib=1024, in_front=None, after=None):
    """Runs one attack against a new server. Returns the Outcome. If the context manager `in_front` is given, gRPC
    attacks go to the port of the object (a proxy) that in_front(server) yields. `after` is called with this object
    after the attack."""
    outcome = Outcome(name, seconds)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(
            Maxsimd(site.programs, site.folder / f"server-{name}", site.collection, limits, with_tokens)
        )
        site.questions.learn(server)
        front = stack.enter_context(in_front(server)) if in_front else server
        server.is_healthy()
        outcome.before = server.usage()
        watch = Watch(server)
        begin = time.monotonic()
        with start_attacker(site, server, name, seconds, getattr(front, "port", server.grpc_port)) as attacker:
            while attacker.poll() is None:
                # Ends the attacker if the server uses too much, so that the machine stays usable.
                if server.usage().rss_bytes > 4 * memory_mib * MIB:
                    attacker.kill()
                    outcome.report = {"stopped": "the server took too much"}
                attacked_s = time.monotonic() - begin
                if attacked_s >= seconds and (watch.least_answered() >= ANSWERS or attacked_s >= ANSWERS_LIMIT_S):
                    break
                time.sleep(0.05)
            outcome.answered = dict(watch.answered)
            outcome.seconds = time.monotonic() - begin
            text, errors = attacker.communicate()
        if text:
            outcome.report = json.loads(text)
        elif not outcome.report:
            raise RuntimeError(f"{name}: the attacker failed: {errors[-2000:]}")
        watch.stop()
        if after:
            after(front)
        outcome.peak, outcome.slowest = watch.peak, watch.slowest
        outcome.after = settle(server, outcome.before)
        # Repeats the question, because the attacker's last connections may not be closed yet.
        for _ in range(3):
            outcome.answer = site.questions.ask(server, 3)
            if not outcome.answer:
                break
            time.sleep(0.3)
        outcome.ready = server.http_status("/readyz")
        outcome.reload = reload_corpus(server) if not outcome.answer else ""
        outcome.log_bytes = server.log_path.stat().st_size
        outcome.exit_code, outcome.stop_s = server.stop(STOP_LIMIT_S)
    return outcome


def main():
    import attacks

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*attacks.ATTACKS, "all"])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--programs", default="build/release/bin")
    parser.add_argument("--without-tokens", action="store_true")
    parser.add_argument("--descriptors", type=int, default=64)
    parser.add_argument("--threads", type=int, default=300)
    parser.add_argument("--memory-mib", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    limits = Limits(arguments.descriptors, arguments.threads)
    failed = False
    with tempfile.TemporaryDirectory(prefix="maxsim-hostile-") as folder:
        site = Range(arguments.programs, folder, arguments.seed)
        for name in attacks.ATTACKS if arguments.name == "all" else [arguments.name]:
            with_tokens = not arguments.without_tokens
            outcome = run_attack(site, name, arguments.seconds, limits, with_tokens, arguments.memory_mib)
            print(f"{name}: {outcome}", flush=True)
            for problem in outcome.problems(arguments.memory_mib, limits):
                failed = True
                print(f"  {problem}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
