"""A server copies a live collection from other servers (a bootstrap), while clients write to it.

    bootstrap_test.py FOLDER_OF_THE_PROGRAMS [--rounds 8] [--seed S]

The servers a and b follow one stream of NATS JetStream. The server c is empty and calls BootstrapCollection. Then it
must have the same documents, versions and rankings as a and b. In further bootstraps it is killed by SIGKILL at random
moments. After each restart c must serve a complete copy or none, and have no leftover files.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import subprocess
import threading
import time
import traceback

import grpc

import corpus
import nats_server
import nats_world
import nodes
import server as client
from maxsim.v1 import admin_pb2, documents_pb2, rerank_pb2
from nats_world import eventually, expect, rows_of

NAME, DIM, NUM_IDS = "docs", 16, 300
STREAM = "maxsim-docs"
LIST = ".maxsimd-created.json"
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
HALF = rerank_pb2.PartitionInfo(first_slot=0, end_slot=2048)
OTHER_HALF = rerank_pb2.PartitionInfo(first_slot=2048, end_slot=4096)


class World:
    def __init__(self, programs, folder, stack):
        self.programs = programs
        self.nats = nats_server.NatsServer(folder / "nats")
        self.nats.start()
        stack.callback(self.nats.kill)
        flags = {**client.COMPACTS_OFTEN, "live.log": "nats", "nats.url": self.nats.url, "nats.replicas": 1}
        self.servers = {}
        for number, name in enumerate("abc"):
            node = nodes.Node(programs, folder / name, nodes.loopback(number + 1), {**flags, "nats.timeout": "2s"}, {})
            node.root = folder / f"{name}-root"
            node.root.mkdir()
            node.flags["store.allowed_roots"] = node.root
            stack.callback(node.kill)
            node.start()
            self.servers[name] = node
        for name in "ab":
            request = admin_pb2.CreateCollectionRequest(name=NAME, dim=DIM)
            self.servers[name].admin.CreateCollection(request, timeout=client.CALL_LIMIT_S)
            self.wait_connected(name)

    def live(self, name):
        return self.servers[name].info(NAME).live

    def wait_connected(self, name):
        eventually(lambda: not self.live(name).error, lambda: f"{name} takes writes: {self.live(name).error}")

    def bootstrap(self, name, *sources, slots=None, timeout_s=client.CALL_LIMIT_S):
        node = self.servers[name]
        request = admin_pb2.BootstrapCollectionRequest(name=NAME, slots=slots)
        request.sources.extend(self.servers[source].target for source in sources)
        answer = node.admin.BootstrapCollection(request, timeout=timeout_s)
        expect(answer.collection.name == NAME and answer.fetched_bytes > 0, f"the answer to a bootstrap: {answer}")
        return answer

    def settle(self, *names):
        return nats_world.settle(self, STREAM, *names)

    def contents(self, name, ids=None):
        """Returns what a server has of each id: payload, version and vectors."""
        ids = [f"id-{number}" for number in range(NUM_IDS)] if ids is None else ids
        answer = self.servers[name].get(client.get_request(NAME, ids, return_tokens=True))
        return {one.string_id: (one.payload, one.version, one.tokens.data) for one in answer.documents}

    def ranking(self, name, ids=None):
        request = client.rerank_request(NAME, rows_of([9, 9]), ids, top_k=10_000)
        ranking = client.Ranking(self.servers[name].rerank(request).results[0])
        return dict(zip(ranking.ids, ranking.scores))

    def expect_same(self, name, other):
        self.settle(name, other)
        expect(self.contents(name) == self.contents(other), f"{name} and {other} have different documents")
        expect(self.ranking(name) == self.ranking(other), f"{name} and {other} have different scores")

    def check_root(self, name, count):
        """Checks that a server's root folder contains the list of created collections and the folders of `count`
        collections, and no other folder."""
        root = self.servers[name].root
        listed = [one["path"] for one in json.loads((root / LIST).read_text())["collections"]] if count else []
        folders = sorted(str(path) for path in root.iterdir() if path.name != LIST)
        expect(folders == sorted(listed) and len(listed) == count, f"{name} has {folders}, and its list {listed}")


class Writer:
    """Writes and deletes documents through one server, with and without versions. Records the version of each id."""

    def __init__(self, node, seed):
        self.node, self.chooser = node, random.Random(seed)
        self.count, self.num_failed, self.problem = 0, 0, ""
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def step(self):
        id = f"id-{self.chooser.randrange(NUM_IDS)}"
        version = self.chooser.choice([0, self.chooser.randrange(1, 1000)])
        try:
            if self.chooser.random() < 0.2:
                self.node.documents.Delete(client.delete_request(NAME, [id], version), timeout=20)
            else:
                one = client.document(id, rows_of([self.count, 1]), f'{{"n":{self.count}}}', version)
                self.node.documents.Upsert(client.upsert_request(NAME, [one]), timeout=20)
            self.count += 1
        except grpc.RpcError as error:
            expect(error.code() == UNAVAILABLE, f"a write: {error.code()} {error.details()}")
            self.num_failed += 1
            time.sleep(0.01)

    def run(self):
        try:
            while not self.ends.is_set():
                self.step()
        except Exception:  # pylint: disable=broad-except  end() reports it
            self.problem = traceback.format_exc()

    def wait_for(self, count):
        eventually(lambda: self.problem or self.count >= count, f"{count} writes")

    def end(self):
        self.ends.set()
        self.thread.join()
        expect(not self.problem, self.problem)


@contextlib.contextmanager
def writing(world, name, seed):
    """Writes go on during the with-statement."""
    writer = Writer(world.servers[name], seed)
    try:
        writer.wait_for(200)
        yield writer
        writer.wait_for(writer.count + 100)
    finally:
        writer.end()


def check_bootstrap(world, seed):
    """An empty server gets the collection while writes go on."""
    with writing(world, "a", seed):
        answer = world.bootstrap("c", "b")
        expect(answer.collection.live.log == "nats", f"the collection: {answer.collection}")
    world.expect_same("c", "b")
    world.check_root("c", 1)
    world.check_root("b", 1)
    # A write or delete with an old version must have the same outcome on c as on a and b, also for a deleted id.
    node = world.servers["c"]
    node.upsert(client.upsert_request(NAME, [client.document("late", rows_of(1), "", 50)]))
    node.delete(client.delete_request(NAME, ["late"], 60))
    world.settle("a", "b", "c")
    world.bootstrap("c", "a")
    stale = node.upsert(client.upsert_request(NAME, [client.document("late", rows_of(2), "", 55)])).results[0]
    expect(stale.outcome == documents_pb2.WRITE_OUTCOME_STALE, f"a write that is older than a delete: {stale}")
    world.expect_same("c", "b")
    world.check_root("c", 1)
    # After a restart it is served again.
    node.kill()
    node.start()
    world.expect_same("c", "b")


def check_swap(world, seed):
    """While c replaces its own copy, clients of c write and read. No read may fail, and each client must see its last
    write. Writes may be refused with a retriable error."""
    node = world.servers["c"]
    problems, counts = [], {"read": 0, "refused": 0}
    ends = threading.Event()

    def write_and_read():
        number = 0
        while not ends.is_set():
            number += 1
            one = client.document("own", rows_of([number, 2]), f'{{"n":{number}}}')
            try:
                node.documents.Upsert(client.upsert_request(NAME, [one]), timeout=20)
            except grpc.RpcError as error:
                if error.code() != UNAVAILABLE:
                    problems.append(f"a write: {error.code()} {error.details()}")
                counts["refused"] += 1
                time.sleep(0.005)
                continue
            try:
                found = node.get(client.get_request(NAME, ["own"])).documents
                if [stored.payload for stored in found] != [one.payload]:
                    problems.append(f"after write {number}: {found}")
                node.rerank(client.rerank_request(NAME, rows_of(3)))
            except grpc.RpcError as error:
                problems.append(f"a read: {error.code()} {error.details()}")
            counts["read"] += 1

    thread = threading.Thread(target=write_and_read)
    thread.start()
    try:
        with writing(world, "a", seed + 1):
            for _ in range(3):
                world.bootstrap("c", "b")
    finally:
        ends.set()
        thread.join()
    expect(not problems, f"{len(problems)} problems: {problems[:3]}")
    expect(counts["read"] > 10, f"{counts}")
    world.expect_same("c", "b")
    world.check_root("c", 1)
    print(f"  swap: {counts}", flush=True)


def check_slots(world, seed):
    """Makes c discard half of its copy. Then c and b have different halves, and c and b each bootstrap the missing
    half."""
    node = world.servers["c"]
    ids = [f"id-{number}" for number in range(NUM_IDS)]
    with writing(world, "a", seed + 2):
        answer = world.bootstrap("c", "c", slots=HALF)
    expect(answer.collection.partition == HALF, f"the slots: {answer.collection.partition}")
    world.settle("c", "b")
    mine = [id for id in ids if corpus.slot_of(id) < 2048]
    expect(world.contents("c") == world.contents("b", mine), "c has other documents than those of its slots")
    with writing(world, "a", seed + 3):
        world.bootstrap("c", "b", slots=OTHER_HALF)
        with client.refused(grpc.StatusCode.INVALID_ARGUMENT) as refused:
            world.bootstrap("c", "c")
        expect("slot 0" in refused[0].details(), refused[0].details())
        world.bootstrap("b", "b", slots=HALF)
        world.bootstrap("c", "c", "b")
        world.bootstrap("b", "c")
    world.expect_same("c", "a")
    world.expect_same("c", "b")
    node.kill()
    node.flags["cluster.partition"] = "0/2"  # does not concern bootstrapped collections
    node.start()
    world.expect_same("c", "b")
    node.kill()
    del node.flags["cluster.partition"]
    node.start()


def check_refusals(world, _):
    a, c = world.servers["a"], world.servers["c"]
    with client.refused(UNAVAILABLE):
        request = admin_pb2.BootstrapCollectionRequest(name=NAME, sources=["127.0.0.1:1"])
        c.admin.BootstrapCollection(request, timeout=client.CALL_LIMIT_S)
    with client.refused(grpc.StatusCode.FAILED_PRECONDITION) as refused:
        request = admin_pb2.BootstrapCollectionRequest(name="unknown", sources=[a.target])
        c.admin.BootstrapCollection(request, timeout=client.CALL_LIMIT_S)
    expect(a.target in refused[0].details(), refused[0].details())
    # A client that gives up ends the bootstrap, at whatever step it is.
    for timeout_s in (0.001, 0.01, 0.03, 0.1):
        with contextlib.suppress(grpc.RpcError):
            world.bootstrap("c", "a", timeout_s=timeout_s)
        eventually(lambda: len(list(c.root.iterdir())) == 2, "what the bootstrap made is removed")
    world.expect_same("c", "b")
    command = [world.programs / "maxsimctl", "--server", c.target, "bootstrap", NAME, "--from", a.target, "--json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    expect(done.returncode == 0, done.stdout + done.stderr)
    expect(json.loads(done.stdout)["collection"]["name"] == NAME, done.stdout)
    world.check_root("c", 1)


def try_bootstrap(world):
    with contextlib.suppress(grpc.RpcError):
        world.bootstrap("c", "b")


def check_kills(world, seed, rounds):
    """Kills c at random moments of a bootstrap. In even rounds, c has no copy of the collection before the
    bootstrap."""
    chooser = random.Random(seed + 4)
    node = world.servers["c"]
    begin = time.monotonic()
    world.bootstrap("c", "a")
    duration_s = time.monotonic() - begin
    outcomes = {"old": 0, "new": 0, "none": 0}
    for number in range(rounds):
        if number % 2 == 0:
            node.unload(NAME)
        before = node.info(NAME)
        paths = {path.name for path in node.root.iterdir()}
        with writing(world, "a", seed + 5 + number):
            caller = threading.Thread(target=try_bootstrap, args=(world,))
            caller.start()
            time.sleep(chooser.uniform(0, 1.2 * duration_s))
            node.kill()
            caller.join()
            node.start()
        after = node.info(NAME)
        if after is None:
            expect(before is None, f"round {number}: the collection is gone")
            outcomes["none"] += 1
        else:
            world.expect_same("c", "b")
            listed = json.loads((node.root / LIST).read_text())["collections"][0]["path"]
            outcomes["old" if pathlib.Path(listed).name in paths else "new"] += 1
        # A collection that was unloaded keeps its folder, so one more folder may exist.
        left = {path.name for path in node.root.iterdir()}
        hidden = {name for name in left if name.startswith(".") and name != LIST}
        expect(not hidden, f"round {number}: {hidden} is left over")
        expect(len(left - paths) <= (after is not None), f"round {number}: {left - paths} is left over")
        if after is None:
            world.bootstrap("c", "b")
            world.expect_same("c", "b")
    print(f"  kills: {outcomes}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    with nodes.workspace("bootstrap") as folder, contextlib.ExitStack() as stack:
        world = World(arguments.programs, folder, stack)
        for check in (check_bootstrap, check_swap, check_slots, check_refusals):
            check(world, arguments.seed * 100)
            print(check.__name__, flush=True)
        check_kills(world, arguments.seed * 100, arguments.rounds)
        for node in world.servers.values():
            node.stop()


if __name__ == "__main__":
    main()
