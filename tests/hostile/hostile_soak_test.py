"""Tests a server under hostile traffic: valid, streamed, mutated, cancelled and expired gRPC calls, and HTTP. Meanwhile
the collection is rebuilt and reloaded, and the attacks of attacks.py run one after another.

    hostile_soak_test.py FOLDER_OF_THE_PROGRAMS [--seconds 20] [--sanitizer address,undefined|thread]

A valid call may be refused. An answer must equal, bit for bit, the answer that the server gave without other traffic.
No call may fail in another way. Memory, descriptors and threads must stay within bounds and return to normal. Finally
the server gets SIGTERM during the traffic, and must end in time with exit code 0. A sanitizer's report would change the
exit code.

soak_test.cc runs dozens of clients against a server in its own process and compares answers with FP64. This test
attacks the program from outside, and watches what it uses of the machine. MAXSIM_SOAK_SECONDS sets the duration,
MAXSIM_TEST_SEED the seed, which is printed.
"""

import argparse
import collections
import http.client
import json
import math
import os
import pathlib
import random
import sys
import tempfile
import threading
import time
import traceback

import attack
import attacks
import soak_traffic
from maxsimd import MIB, NUM_DOCUMENTS, Limits, Maxsimd, Usage, Watch, build_collection

CLIENTS = 6
ATTACKS = sorted(attacks.ATTACKS.keys() - attacks.TRUSTED_NOT_TO)
ATTACK_S = 1.0
WARM_UP_S = 3.0
# Limits by sanitizer. ASan keeps freed memory for a while and needs shadow memory. With TSan memory is not checked: its
# shadow memory is several times as large as the program's, and its reports delay the threads that free memory.
MEMORY_MIB = {"": 1024, "address,undefined": 4096, "thread": math.inf}
# Once a minute the server returns free memory to the system, if there is more than 256 MiB of it. Until then about 800
# MiB may remain, mostly 512 MiB of grpc.max_memory and 256 MiB of grpc.max_unread_answer_bytes.
GIVES_BACK_WITHIN_S = 75.0
LEFT_MIB = {"": 384, "address,undefined": 2048, "thread": math.inf}
LEFT_DESCRIPTORS = attack.LEFT_DESCRIPTORS + 2 * CLIENTS
# The traffic continues until VALID_ANSWERS valid calls are answered, and each probe as often as attack.py requires. A
# slow machine reaches this within LIMIT_S, but a server that hangs does not.
VALID_ANSWERS, LIMIT_S = 100, 240.0
STOP_LIMIT_S = 60


class Soak:
    def __init__(self, site, server):
        self.site, self.server, self.questions = site, server, site.questions
        self.metadata = server.metadata()
        self.raw_requests = [request.SerializeToString() for request in site.questions.requests]
        self.problems, self.counts = [], collections.Counter()
        self._lock = threading.Lock()
        self._local = threading.local()
        self.stopping = threading.Event()  # set when the server is told to stop; failures no longer count
        self.done = threading.Event()
        self.attacks_done = threading.Event()
        self.http_bodies, self.http_answers = [], []
        for seed in range(4):
            chooser = random.Random(seed)
            query = [[chooser.uniform(-1, 1) for _ in range(32)] for _ in range(1 + 3 * seed)]
            ids = "*" if seed % 2 else [f"doc-{chooser.randrange(NUM_DOCUMENTS)}" for _ in range(30)]
            body = {"model": "corpus", "query": query, "documents": ids, "top_n": 15}
            self.http_bodies.append(json.dumps(body).encode())
        for body in self.http_bodies:
            status, answer = self.post(body)
            if status != 200:
                raise RuntimeError(f"the first HTTP answer is {status}: {answer!r}")
            self.http_answers.append(soak_traffic.essence_of_json(answer))

    def channel(self):
        """Returns the channel of the calling thread. Replaces it every 50 calls, so that connections open and close."""
        local = self._local
        local.uses = getattr(local, "uses", 0) + 1
        if local.uses % 50 == 1:
            if local.uses > 1:
                local.channel.close()
            local.channel = self.server.channel()
        return local.channel

    def stub(self):
        return self.questions.stubs.RerankerStub(self.channel())

    def post(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=20)
        try:
            connection.request("POST", "/v1/rerank", body, {"Authorization": f"Bearer {self.server.token}"})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def count(self, kind, code):
        if self.stopping.is_set():
            return
        with self._lock:
            self.counts[f"{kind} {code}"] += 1

    def fail(self, what):
        if self.stopping.is_set():
            return
        with self._lock:
            if len(self.problems) < 20:
                self.problems.append(what)

    def expect_right(self, i, answer):
        if wrong := self.questions.wrong(i, answer):
            self.fail(wrong)

    def client(self, seed):
        chooser = random.Random(seed)
        while not self.done.is_set():
            kind = chooser.choice(soak_traffic.KINDS)
            try:
                kind(self, chooser)
            except Exception:  # pylint: disable=broad-except
                self.fail(f"{kind.__name__}: {traceback.format_exc()}")
                time.sleep(0.05)
            time.sleep(0.002)  # leaves processor time for the attacks

    def attack(self, seed):
        """Runs the attacks one after another in random order, each in a separate process."""
        chooser, names = random.Random(seed), []
        while not self.attacks_done.is_set():
            names = names or chooser.sample(ATTACKS, len(ATTACKS))
            name = names.pop()
            if name == "sparse_loads" and not self.site.has_sparse:
                continue
            with attack.start_attacker(self.site, self.server, name, ATTACK_S) as attacker:
                _, errors = attacker.communicate()
            self.count("attack", name)
            if attacker.returncode != 0:
                self.fail(f"the attacker {name} failed: {errors[-1000:]}")

    def reload(self, seed):
        """Publishes new generations with the same documents. The server loads new files, but answers must stay the
        same."""
        while not self.done.wait(1.0):
            build_collection(self.site.programs, self.site.collection, seed)
            self.count("reload", attack.reload_corpus(self.server)[:100] or "OK")


def run(site, server, seconds, seed, sanitizer):
    """Returns what went wrong, and a line of statistics."""
    soak = Soak(site, server)
    threads = [threading.Thread(target=soak.client, args=(seed * 1000 + c,)) for c in range(CLIENTS)]
    threads.append(threading.Thread(target=soak.reload, args=(seed,)))
    attacking = threading.Thread(target=soak.attack, args=(seed,))
    watch = Watch(server)
    for thread in [*threads, attacking]:
        thread.start()
    begin, warm = time.monotonic(), Usage()
    while server.alive() and not soak.problems:
        time.sleep(0.1)
        passed_s = time.monotonic() - begin
        if passed_s < WARM_UP_S:
            warm.raise_to(server.usage())
        enough = watch.least_answered() >= attack.ANSWERS and soak.counts["valid OK"] >= VALID_ANSWERS
        if passed_s >= seconds and (enough or passed_s >= LIMIT_S):
            break
    watch.stop()
    # Ends the attacks first, so that the server can free what they used. Clients continue their calls until the server
    # stops.
    soak.attacks_done.set()
    attacking.join()
    after = attack.settle(server, warm, LEFT_MIB[sanitizer], LEFT_DESCRIPTORS, GIVES_BACK_WITHIN_S)
    unanswered = ask_until_right(site, server)
    soak.stopping.set()
    code, stop_s = server.stop(STOP_LIMIT_S)
    soak.done.set()
    for thread in threads:
        thread.join()
    problems = soak.problems + excesses(watch, warm, after, sanitizer)
    if code != 0:
        problems.append(f"SIGTERM: exit code {code} after {stop_s:.1f} s; the log ends with\n{server.log_end(6000)}")
    if unanswered:
        problems.append(f"after the attacks no new connection is answered: {unanswered}")
    if soak.counts["valid OK"] < VALID_ANSWERS:
        problems.append(f"{soak.counts['valid OK']} valid calls were answered, fewer than {VALID_ANSWERS}")
    counts = ", ".join(f"{key}: {count}" for key, count in sorted(soak.counts.items()))
    slowest = ", ".join(f"{name} {1000 * s:.0f} ms" for name, s in watch.slowest.items())
    return problems, f"warm {warm}; peak {watch.peak}; after {after}; slowest {slowest}; stop in {stop_s:.1f} s; {counts}"


def ask_until_right(site, server):
    """Returns why a call on a new connection fails, or ""."""
    until = time.monotonic() + 60
    while problem := site.questions.ask(server, 0):
        if time.monotonic() > until:
            return problem
        time.sleep(0.2)
    return ""


def excesses(watch, warm, after, sanitizer):
    found = []
    if watch.peak.rss_bytes > MEMORY_MIB[sanitizer] * MIB:
        found.append(f"it took {watch.peak}, more than {MEMORY_MIB[sanitizer]} MiB")
    if after.rss_bytes > warm.rss_bytes + LEFT_MIB[sanitizer] * MIB:
        found.append(f"memory is not given back: {warm} at first, {after} after the attacks")
    if after.threads > warm.threads + attack.LEFT_THREADS:
        found.append(f"threads stay: {warm} at first, {after} after the attacks")
    if after.descriptors > warm.descriptors + LEFT_DESCRIPTORS:
        found.append(f"descriptors stay: {warm} at first, {after} after the attacks")
    for name, count in watch.answered.items():
        if count < attack.ANSWERS or watch.failures[name]:
            found.append(f"the probe {name} was answered {count} times and failed {watch.failures[name]} times")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--sanitizer", choices=MEMORY_MIB, default="")
    arguments = parser.parse_args()
    seconds = float(os.environ.get("MAXSIM_SOAK_SECONDS", arguments.seconds))
    seed = int(os.environ.get("MAXSIM_TEST_SEED", "1"))
    print(f"MAXSIM_TEST_SEED={seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="maxsim-soak-") as folder:
        site = attack.Range(arguments.programs, folder, seed)
        limits = Limits(descriptors=128, threads=None if arguments.sanitizer else 300)
        with Maxsimd(site.programs, site.folder / "server", site.collection, limits) as server:
            site.questions.learn(server)
            problems, line = run(site, server, seconds, seed, arguments.sanitizer)
    print(line, flush=True)
    for problem in problems:
        print(f"PROBLEM (MAXSIM_TEST_SEED={seed}): {problem}", flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
