"""The servers of nats_test.py and layout_test.py: NATS, and several maxsimd that serve one collection and follow its
stream."""

import pathlib
import shutil
import tempfile
import time

import numpy as np

import nats_server
import oracle as exact
import server as client
from maxsim.v1 import documents_pb2

NAME, DIM, NUM_BASE, NUM_IDS = "cor.pus", 16, 60, 40
STREAM = "maxsim-cor+pus"
TIMEOUT_S = 2
APPLIED = documents_pb2.WRITE_OUTCOME_APPLIED


def rows_of(seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((int(rng.integers(1, 9)), DIM)).astype(np.float32)


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def eventually(condition, what, limit_s=60):
    """Waits until `condition` holds. `what` describes the condition for the error: a text, or a function that returns
    one."""
    until = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"not within {limit_s} s: {what() if callable(what) else what}")
        time.sleep(0.02)


def settle(world, stream, *names):
    """Waits until the servers have applied all messages of the stream. Returns the stream's last sequence.

    `world` has `nats` and `live`. Asks for the last sequence again and again, because a write of unknown outcome may
    still reach the stream. Also, the stream may report an older sequence for a while after a change of leader."""
    seen = {}

    def have_settled():
        seen["stream"] = world.nats.stream_state(stream)["last_seq"]
        seen.update({name: world.live(name).sequence for name in names})
        return len(set(seen.values())) == 1

    eventually(have_settled, lambda: f"all have applied what the stream has: {seen}")
    return seen["stream"]


class Servers:
    """A nats-server, and several maxsimd by name. All of them end with the with-statement."""

    def __init__(self, programs, folder, nats=nats_server.NatsServer, max_payload=1 << 20):
        self.programs, self.folder = programs, pathlib.Path(folder)
        self.nats = nats(self.folder / "nats", max_payload)
        self.servers = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.kill()
        self.nats.kill()


class World(Servers):
    """Servers of which each serves its own copy of the same built collection."""

    def __init__(self, programs, folder, **options):
        super().__init__(programs, folder, **options)
        base = exact.Oracle(exact.Storage("f16", DIM), "string")
        for i in range(NUM_BASE):
            base.begin_with(f"doc-{i}", rows_of(i))
        base.build(programs, self.folder / "base", NAME, "--codes", 4)

    def flags(self, **more):
        return {
            **client.COMPACTS_OFTEN,
            "live.log": "nats",
            "nats.url": self.nats.url,
            "nats.replicas": 1,
            "nats.timeout": f"{TIMEOUT_S}s",
            **more,
        }

    def add(self, name, source=None, flags=None, start=True):
        """Makes a new server with a copy of the folder `source` (default: the base collection), and starts it if
        `start`."""
        folder = self.folder / name
        folder.mkdir()
        shutil.copytree(source or self.folder / "base", folder / "collection")
        self.servers[name] = client.Server(self.programs, folder, flags or self.flags())
        if start:
            self.start(name)
        return self.servers[name]

    def start(self, name):
        self.servers[name].start({NAME: f"{self.folder / name / 'collection'},live"})

    def live(self, name):
        return self.servers[name].info(NAME).live

    def wait_connected(self, *names):
        for name in names:
            eventually(lambda name=name: not self.live(name).error, f"{name} takes writes: {self.live(name).error}")

    def settle(self, *names):
        return settle(self, STREAM, *names)

    def contents(self, name, ids):
        answer = self.servers[name].get(client.get_request(NAME, ids, return_tokens=True))
        return {
            one.string_id: (one.payload, one.version, one.sequence, one.tokens.data) for one in answer.documents
        }

    def ranking(self, name, seed=1):
        answer = self.servers[name].rerank(client.rerank_request(NAME, rows_of([9, seed]), top_k=10_000))
        ranking = client.Ranking(answer.results[0])
        # Each server computes its own codes. The codes must be equal, so a search by codes must find the same
        # documents.
        request = client.rerank_request(NAME, rows_of([9, seed]), top_k=5, refinement=client.proven(7))
        by_codes = client.Ranking(self.servers[name].rerank(request).results[0])
        return ranking.ids, ranking.scores, ranking.payloads, by_codes.essence(), str(by_codes.refinement)

    def expect_same(self, *names):
        rankings = [self.ranking(name) for name in names]
        for name, ranking in zip(names, rankings):
            expect(ranking == rankings[0], f"{name} and {names[0]} have different rankings")


def upsert(server, id, seed, payload="", version=0, timeout_s=30):
    request = client.upsert_request(NAME, [client.document(id, rows_of(seed), payload, version)])
    return server.upsert(request, timeout_s)


def run_tests(tests, only, make_world, call=lambda _, test, world: test(world)):
    """Runs the test `only`, or all tests if it is None, each with new servers. `tests` maps names to functions.

    `make_world` gets the name and a folder, and returns the test's Servers. `call` gets the name, the test and the
    servers. Prints how long each test takes and, if it fails, the ends of all logs."""
    for name, test in tests.items():
        if only not in (None, name):
            continue
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="maxsim-nats-") as folder:
            with make_world(name, folder) as world:
                try:
                    call(name, test, world)
                except BaseException:
                    print(f"FAILED: {name}", flush=True)
                    for server_name, server in world.servers.items():
                        print(f"--- {server_name}\n{server.log_end(3000)}", flush=True)
                    print(f"--- nats\n{world.nats.log()[-1500:]}", flush=True)
                    raise
        print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)
