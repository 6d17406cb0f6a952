"""An empty server copies a collection from the cluster. The stream no longer has the first messages of the collection.

    filling_test.py FOLDER_OF_THE_PROGRAMS [--rounds 3] [--seed S]

The server a has a collection. The server c is empty, has live.create_from_cluster, and lists a in cluster.peers. While
a does not answer, c must serve nothing, and say what it waits for. When a answers again, c must copy the collection
without any command. Then c loses its disk several times, and is killed by SIGKILL while it copies the collection. After
the next start it must complete the copy, and leave no other files. Finally a is lost, and c restores the collection
from a backup and the stream.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import time
import urllib.request

import grpc

import compare  # noqa: F401  which finds the modules of tests/live
import nats_server
import nats_world
import nodes
import server as client
from maxsim.v1 import admin_pb2, rerank_pb2
from nats_world import eventually, expect, rows_of

NAME, DIM, NUM_IDS = "docs", 16, 200
STREAM = "maxsim-docs"
LIST = ".maxsimd-created.json"
NOBODY = "127.53.0.9:1"


class World:
    def __init__(self, programs, folder, stack):
        self.nats = nats_server.NatsServer(folder / "nats")
        self.nats.start()
        stack.callback(self.nats.kill)
        self.servers = {}
        for number, name in enumerate(("a", "c", "router")):
            node = nodes.Node(programs, folder / name, nodes.loopback(number + 1), {}, {})
            node.root = folder / f"{name}-root"
            node.root.mkdir()
            if name != "router":
                node.flags |= {"live.log": "nats", "nats.url": self.nats.url, "nats.replicas": 1, "nats.timeout": "2s"}
                node.flags |= {"store.allowed_roots": node.root, "cluster.group": "g0"}
            stack.callback(node.kill)
            self.servers[name] = node
        self.a, self.c, self.router = self.servers.values()
        self.a.start()
        self.c.flags |= {"live.create_from_cluster": "true", "cluster.peers": f"{NOBODY},{self.a.target}"}

    def live(self, name):
        return self.servers[name].info(NAME).live

    def write(self, first, count):
        documents = [client.document(f"id-{n}", rows_of([n, 1]), f'{{"n":{n}}}') for n in range(first, first + count)]
        self.a.upsert(client.upsert_request(NAME, documents))

    def contents(self, node):
        answer = node.get(client.get_request(NAME, [f"id-{n}" for n in range(NUM_IDS)], return_tokens=True))
        return {one.string_id: (one.payload, one.tokens.data) for one in answer.documents}

    def ranking(self, node):
        ranking = client.Ranking(node.rerank(client.rerank_request(NAME, rows_of([9, 9]), top_k=1000)).results[0])
        return dict(zip(ranking.ids, ranking.scores))

    def wait_ready(self):
        def is_filled():
            info = self.c.info(NAME)
            return info is not None and info.state == rerank_pb2.COLLECTION_STATE_READY

        eventually(is_filled, lambda: f"c fills itself: {self.c.info(NAME)}\n{self.c.log_end(2000)}")

    def wait_filled(self):
        self.wait_ready()
        nats_world.settle(self, STREAM, "a", "c")
        expect(self.contents(self.c) == self.contents(self.a), "a and c have different documents")
        expect(self.ranking(self.c) == self.ranking(self.a), "a and c have different scores")
        listed = [one["path"] for one in json.loads((self.c.root / LIST).read_text())["collections"]]
        folders = [str(path) for path in self.c.root.iterdir() if path.name != LIST]
        expect(folders == listed and len(listed) == 1, f"c has {folders}, and its list {listed}")


def text_of(node, path):
    with urllib.request.urlopen(f"http://{node.host}:{node.http_port}{path}", timeout=client.CALL_LIMIT_S) as answer:
        return answer.read().decode()


def check_wait(world):
    """While no server sends the collection, c says so, and serves no part of it."""
    a, c = world.a, world.c
    a.pause()
    try:
        c.start()
        reason = f"{NOBODY} does not answer"
        eventually(
            lambda: (info := c.info(NAME)) is not None and reason in info.error and a.target in info.error,
            lambda: f"c says what it waits for: {c.info(NAME)}\n{c.log_end(2000)}",
        )
        info = c.info(NAME)
        expect(info.state == rerank_pb2.COLLECTION_STATE_LOADING, f"c has the collection: {info}")
        expect(f"collection {NAME} is not here yet: " in text_of(c, "/readyz"), text_of(c, "/readyz"))
        eventually(lambda: c.metrics()["maxsim_collections_awaited"] == 1, "the metric counts the collection")
        expect("shared_collection_not_created" in c.log(), "the log has no line about it")
        with client.refused(grpc.StatusCode.UNAVAILABLE) as refused:
            world.ranking(c)
        expect("is not on this server yet" in refused[0].details(), refused[0].details())
    finally:
        a.go_on()
    world.wait_filled()
    eventually(lambda: c.metrics()["maxsim_collections_awaited"] == 0, "the metric no longer counts the collection")
    expect("is not here yet" not in text_of(c, "/readyz"), text_of(c, "/readyz"))


def check_kills(world, rounds, seed):
    """c loses its disk, and is killed while it copies the collection. Meanwhile the router must find all documents."""
    chooser = random.Random(seed)
    a, c, router = world.a, world.c, world.router
    router.flags |= {**nodes.ROUTER, "cluster.groups": f"g0={a.target} {c.target}"}
    router.start()
    eventually(lambda: NAME in router.ready_collections(), "the router has the collection")
    duration_s = 0.3
    for number in range(rounds):
        c.kill()
        shutil.rmtree(c.root)
        c.root.mkdir()
        c.start()
        time.sleep(chooser.uniform(0, duration_s))
        c.kill()
        left = sorted(path.name for path in c.root.iterdir())
        world.write(100 + 10 * number, 10)
        begin = time.monotonic()
        c.start()
        while (info := c.info(NAME)) is None or info.state != rerank_pb2.COLLECTION_STATE_READY:
            expect(len(world.ranking(router)) == 110 + 10 * number, "the router lacks documents while c fills itself")
        duration_s = time.monotonic() - begin
        world.wait_filled()
        print(f"  round {number}: the kill left {left}; filled {duration_s:.2f} s after the restart began", flush=True)


def check_backup(world, folder, programs):
    """c loses its disk, and no other server exists. c must restore the documents from a backup and the stream."""
    a, c = world.a, world.c
    url = f"file://{folder}/backups"
    for name in ("monday", "tuesday"):
        command = [programs / "maxsimctl", "--server", a.target, "snapshot", NAME, f"{url}/{NAME}/{name}"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        expect(done.returncode == 0, done.stdout + done.stderr)
        world.write(150, 10)
    (folder / "backups" / NAME / "wednesday").mkdir()  # a backup that was not finished
    contents, ranking = world.contents(a), world.ranking(a)
    a.kill()
    c.kill()
    shutil.rmtree(c.root)
    c.root.mkdir()
    c.flags["cluster.backups"] = url
    c.start()
    world.wait_ready()
    expect(f"{url}/{NAME}/tuesday" in c.log(), "c has not fetched the newest backup")
    expect(world.contents(c) == contents, "c has other documents than a had")
    expect(world.ranking(c) == ranking, "c has other scores than a had")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    with nodes.workspace("filling") as folder, contextlib.ExitStack() as stack:
        world = World(arguments.programs.resolve(), folder, stack)
        world.a.admin.CreateCollection(
            admin_pb2.CreateCollectionRequest(name=NAME, dim=DIM), timeout=client.CALL_LIMIT_S
        )
        eventually(lambda: not world.live("a").error, lambda: f"a takes writes: {world.live('a').error}")
        world.write(0, 100)
        world.nats.ask(f"STREAM.PURGE.{STREAM}", b'{"seq": 60}')
        check_wait(world)
        check_kills(world, arguments.rounds, arguments.seed)
        check_backup(world, folder, arguments.programs.resolve())


if __name__ == "__main__":
    main()
