"""A live collection is backed up to object storage while clients write, and restored to other numbers of groups.

    backup_test.py FOLDER_OF_THE_PROGRAMS --moto PYTHON [--writes 400] [--seed S]

Two groups of servers, and one server that holds everything, follow a stream of NATS JetStream. PYTHON is the Python of
an environment with moto, a fake S3 server. `maxsim-shard restore` makes a whole collection and three partitions from a
backup, and a second cluster serves them. Its answers must equal those of the original servers bit for bit: at once if
no client wrote during the backup, otherwise after it has applied the rest of the stream. Incomplete or damaged backups
must not be restored, and no output may contain a secret.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import threading
import time
import traceback

import grpc
import numpy as np

import compare
import nats_server
import nodes
import s3_server
import server as client
from live_load import ALL, QUERIES
from live_world import IDS, World
from maxsim.v1 import admin_pb2
from nats_world import eventually, expect
from numbered import query_vectors, vectors

NAME, DIM = "words", 16
# The collection has 35 MiB in FP16. Even after compactions, the largest shard has more than half of that
# (collection/compact/shard_groups.h). So its upload needs more than one part of 16 MiB.
BIG, BIG_DIM, BIG_TOKENS, BIG_DOCUMENTS = "big", 512, 256, 140
FLAGS = {**client.COMPACTS_OFTEN, "nats.replicas": 1, "nats.timeout": "1m", "memory.budget": "256MiB"}
LIMIT_S = 500  # ends a test that hangs; CTest's limit is 600 s
NOT_READY = "that are ready do not hold all slots"
PARTS = 3  # of the restored collection


class Tools:
    """Runs maxsimctl and maxsim-shard, and checks that their output has no secret."""

    def __init__(self, programs, s3):
        self.programs, self.s3 = pathlib.Path(programs).resolve(), s3
        self.environment = {**os.environ, **s3.environment()}

    def run(self, program, *arguments, code=0):
        """Runs a program and checks its exit code. Returns standard output or, if `code` is not 0, standard error.
        Repeats the run while the router reports that a group has no ready server: a slow moment can make the router
        eject a group's only server."""
        command = [str(self.programs / program), *map(str, arguments)]
        until = time.monotonic() + LIMIT_S
        done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        while NOT_READY in done.stderr and time.monotonic() < until:
            time.sleep(0.2)
            done = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        expect(done.returncode == code, f"{command} ended with {done.returncode}: {done.stdout}{done.stderr}")
        for value in ("backup-test-secret", "backup-test-token", "Signature="):
            expect(value not in done.stdout + done.stderr, f"{command} prints a secret: {done.stdout}{done.stderr}")
        return done.stderr if code else done.stdout

    def snapshot(self, server, name, prefix, *more, code=0):
        url = f"s3://{self.s3.bucket}/{prefix}"
        output = self.run("maxsimctl", "--server", server.target, "snapshot", name, url, "--json", *more, code=code)
        return output if code else json.loads(output)

    def restore(self, prefix, output, *more, code=0):
        return self.run("maxsim-shard", "restore", f"s3://{self.s3.bucket}/{prefix}", output, *more, code=code)


class Writer(threading.Thread):
    """Writes and deletes documents through the router, every second id with versions. Ignores UNAVAILABLE: it does not
    matter whether such a write takes effect, because the test only compares the servers with each other."""

    def __init__(self, world, seed):
        super().__init__()
        self.world, self.chooser = world, random.Random(seed)
        self.count, self.problem = 0, ""
        self.ends = threading.Event()

    def step(self):
        number = self.chooser.randrange(IDS)
        id, router = self.world.ids.id_of(number), self.world.cluster.router
        version = self.chooser.randrange(1, 1000) if number % 2 else 0
        try:
            if self.chooser.random() < 0.25:
                router.delete(client.delete_request(NAME, [id], version))
            else:
                rows = vectors(self.chooser.randrange(60), DIM)
                one = client.document(id, rows, f'{{"n":{self.count}}}', version)
                router.upsert(client.upsert_request(NAME, [one]))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            return
        self.count += 1

    def run(self):
        try:
            while not self.ends.is_set():
                self.step()
        except Exception:  # pylint: disable=broad-except  wait_for() and end() report it
            self.problem = traceback.format_exc()

    def wait_for(self, count):
        eventually(lambda: self.problem or self.count >= count, f"{count} writes", LIMIT_S)
        expect(not self.problem, self.problem)

    def end(self):
        self.ends.set()
        self.join()
        expect(not self.problem, self.problem)


def settle(world, servers):
    """Waits until the servers have applied the whole stream. Returns the stream's last sequence."""
    seen = {}

    def have_settled():
        seen["stream"] = world.nats.stream_state(world.stream)["last_seq"]
        seen.update({node.name: node.info(NAME).live.sequence for node in servers})
        return len(set(seen.values())) == 1

    eventually(have_settled, lambda: f"all have applied what the stream has: {seen}", LIMIT_S)
    return seen["stream"]


def answers(node):
    """Returns the answers of a server or router to all queries, without fields that may differ between servers."""
    found = []
    for query in range(QUERIES):
        request = client.rerank_request(NAME, query_vectors(query, DIM), top_k=ALL, return_payloads=True)
        answer = node.rerank(request)
        answer.generation = 0
        answer.results[0].ClearField("positions")  # a collection without partitions counts positions differently
        found.append(answer)
    return found


def documents(world, node):
    """Returns payload, version and vectors of each document by id."""
    ids = [world.ids.id_of(number) for number in range(IDS)]
    answer = node.get(client.get_request(NAME, ids, return_tokens=True))
    return {one.string_id: (one.payload, one.version, one.tokens.data) for one in answer.documents}


def expect_same(world, node):
    """Checks that a server or router has the same documents as the single server, and ranks them with bit-identical
    scores."""
    single = world.cluster.single
    wanted, got = documents(world, single), documents(world, node)
    different = [id for id in wanted.keys() | got.keys() if wanted.get(id) != got.get(id)]
    expect(not different, f"{node.name} has other documents {different[:5]} ({len(got)} of {len(wanted)})")
    for query, (one, other) in enumerate(zip(answers(single), answers(node))):
        difference = compare.difference(one, other)
        expect(not difference, f"{node.name} answers query {query} differently: {difference}")


def serve_restored(world, tools, prefix, check):
    """Restores a backup as one collection and as partitions, serves both, and calls `check` with these servers."""
    folder = world.folder / f"restored-{prefix}"
    folder.mkdir()
    tools.restore(prefix, folder / "whole")
    printed = tools.restore(prefix, folder / "parts", "--into", PARTS)
    expect(f"partition-{PARTS - 1}-of-{PARTS}" in printed, printed)
    for path in [folder / "whole", *(folder / "parts").iterdir()]:
        tools.run("maxsim-shard", "verify", path, "--quiet")
    expect(len(list((folder / "parts").iterdir())) == PARTS, f"{list((folder / 'parts').iterdir())}")
    expect(sorted(path.name for path in folder.iterdir()) == ["parts", "whole"], f"{list(folder.iterdir())}")
    of_parts = [{NAME: f"{folder}/parts/partition-{part}-of-{PARTS},live"} for part in range(PARTS)]
    flags = {**FLAGS, "live.log": "nats", "nats.url": world.nats.url}
    places = [(nodes.loopback(30 + number), ()) for number in range(2 + PARTS)]
    with nodes.Cluster(
        world.programs, folder, {NAME: f"{folder}/whole,live"}, of_parts, 1, flags, places=places
    ) as cluster:
        cluster.start()
        check(cluster)
        cluster.stop()
    shutil.rmtree(folder)


def check_quiet(world, tools, writer):
    """No client writes during the backup or later. The restored collections must be at the stream's last sequence."""
    writer.end()
    last = settle(world, [world.cluster.single, *world.cluster.replicas()])
    made = tools.snapshot(world.cluster.router, NAME, "quiet", "--cluster")
    expect(made["position"] == made["complete_at"] == last, f"the stream ends with {last}: {made}")
    expect(len(made["parts"]) == 2, f"{made}")
    manifest = json.loads(tools.s3.get("quiet/manifest.json"))
    expect(manifest["stream"]["name"] == world.stream, f"{manifest['stream']}")

    def check(cluster):
        servers = [cluster.single, *cluster.replicas()]
        sequences = {node.info(NAME).live.sequence for node in servers}
        expect(sequences == {last}, f"the restored servers are at {sequences}, not at {last}")
        expect_same(world, cluster.single)
        expect_same(world, cluster.router)

    serve_restored(world, tools, "quiet", check)


def check_busy(world, tools, seed):
    """Clients write before, during and after the backups. The restored collections must catch up with the stream."""
    writer = Writer(world, seed + 1)
    writer.start()
    try:
        writer.wait_for(100)
        made = tools.snapshot(world.cluster.router, NAME, "busy", "--cluster")
        alone = tools.snapshot(world.cluster.single, NAME, "alone")
        expect(alone["position"] == alone["complete_at"] > 0 and len(alone["parts"]) == 1, f"{alone}")
        writer.wait_for(writer.count + 100)
        refused = tools.snapshot(world.cluster.router, NAME, "busy", "--cluster", code=1)
        expect("ALREADY_EXISTS" in refused and "new prefix" in refused, refused)
    finally:
        writer.end()
    last = settle(world, [world.cluster.single, *world.cluster.replicas()])
    expect(made["position"] <= made["complete_at"] < last, f"the stream ends with {last}: {made}")

    def check(cluster):
        settle(world, [cluster.single, *cluster.replicas()])
        expect_same(world, cluster.single)
        expect_same(world, cluster.router)

    for prefix in ("busy", "alone"):
        serve_restored(world, tools, prefix, check)
    print(f"  busy: {made['complete_at'] - made['position']} writes between the groups' snapshots", flush=True)


def make_big(world):
    """Makes a collection whose largest shard is larger than a part of an upload."""
    single = world.cluster.single
    single.admin.CreateCollection(
        admin_pb2.CreateCollectionRequest(name=BIG, path=str(world.folder / "big"), dim=BIG_DIM),
        timeout=client.CALL_LIMIT_S,
    )
    eventually(lambda: not single.info(BIG).live.error, lambda: f"takes writes: {single.info(BIG).live.error}", LIMIT_S)
    rng = np.random.default_rng(5)
    for number in range(BIG_DOCUMENTS):
        rows = rng.standard_normal((BIG_TOKENS, BIG_DIM)).astype(np.float32)
        single.upsert(client.upsert_request(BIG, [client.document(f"big-{number}", rows)]))
    single.compact(BIG)


def check_big(world, tools):
    """A large shard is uploaded in parts, and comes back as it was."""
    make_big(world)
    single = world.cluster.single
    made = tools.snapshot(single, BIG, "big")
    expect(made["bytes"] > 32 << 20, f"{made}")
    parts = [line for line in tools.s3.requests() if re.match(r"PUT \S+/big/\S+partNumber=2", line)]
    expect(parts, "no object was uploaded in parts")
    tools.restore("big", world.folder / "big-again")
    tools.run("maxsim-shard", "verify", world.folder / "big-again", "--quiet")
    shown = json.loads(tools.run("maxsim-shard", "inspect", world.folder / "big-again", "--json"))
    expect(shown["num_documents"] == BIG_DOCUMENTS, f"{shown}")
    # A backup in a folder restores to the same files.
    url = f"file://{world.folder}/folder-backup"
    tools.run("maxsimctl", "--server", single.target, "snapshot", BIG, url)
    tools.run("maxsim-shard", "restore", url, world.folder / "big-third")
    files = [sorted(path.name for path in (world.folder / name).glob("*.safetensors")) for name in ("big-again", "big-third")]
    expect(files[0] and files[0] == files[1], f"{files}")
    for name in files[0]:
        same = (world.folder / "big-again" / name).read_bytes() == (world.folder / "big-third" / name).read_bytes()
        expect(same, f"{name} of the two backups differs")


def interrupt_backup(world, tools, prefix):
    """Kills a backup while it writes. Returns whether it was incomplete."""
    url = f"s3://{tools.s3.bucket}/{prefix}"
    command = [tools.programs / "maxsimctl", "--server", world.cluster.single.target, "snapshot", BIG, url]
    with subprocess.Popen(list(map(str, command)), env=tools.environment, stderr=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL) as process:
        eventually(
            lambda: any(f"/{prefix}/data-" in line for line in tools.s3.requests()) or process.poll() is not None,
            "the backup has begun",
            LIMIT_S,
        )
        tools.s3.pause()
        process.kill()
        tools.s3.go_on()
    return tools.s3.get(f"{prefix}/manifest.json") is None


def check_interrupted(world, tools):
    """A backup that was interrupted does not exist, and its prefix is not used again."""
    for number in range(10):
        prefix = f"interrupted-{number}"
        if interrupt_backup(world, tools, prefix):
            break
        time.sleep(0.1)
    else:
        raise AssertionError("ten backups were complete before they could be killed")
    refused = tools.restore(prefix, world.folder / "none", code=1)
    expect("manifest.json" in refused, refused)
    expect(not (world.folder / "none").exists(), "a restore of no backup makes a folder")
    refused = tools.snapshot(world.cluster.single, BIG, prefix, code=1)
    expect("ALREADY_EXISTS" in refused, refused)


def check_damaged(world, tools):
    """A backup with a wrong or a missing object is not restored."""
    manifest = json.loads(tools.s3.get("quiet/manifest.json"))
    largest = max(manifest["parts"][1]["files"], key=lambda file: file["bytes"])
    key = f"quiet/data-{manifest['id']}/part-1/{largest['path']}"
    right = tools.s3.get(key)
    wrong = bytearray(right)
    wrong[len(wrong) // 2] ^= 1
    for bytes_, words in ((bytes(wrong), "is damaged"), (right[:-1], "ends after"), (None, "is missing")):
        if bytes_ is None:
            tools.s3.call("DELETE", key)
        else:
            tools.s3.call("PUT", key, bytes_)
        refused = tools.restore("quiet", world.folder / "none", code=1)
        expect(words in refused and largest["path"] in refused, refused)
        left = [path.name for path in world.folder.iterdir() if "none" in path.name]
        expect(not left, f"{left} is left over")


def check_refusals(world, tools):
    router, single = world.cluster.router, world.cluster.single
    expect("FAILED_PRECONDITION" in tools.snapshot(router, NAME, "no-cluster", code=1), "a router is no source")
    expect("NOT_FOUND" in tools.snapshot(router, "unknown", "unknown", "--cluster", code=1), "an unknown collection")
    expect("not a router" in tools.snapshot(single, NAME, "single", "--cluster", code=1), "a server has no groups")
    refused = tools.run("maxsimctl", "--server", single.target, "snapshot", NAME, "s3://no-such-bucket/x", code=1)
    expect("NoSuchBucket" in refused, refused)
    tools.run("maxsimctl", "snapshot", NAME, "/a/path", "--cluster", code=2)
    tools.environment.pop("AWS_SECRET_ACCESS_KEY")
    expect("AWS_SECRET_ACCESS_KEY" in tools.restore("quiet", world.folder / "none", code=1), "no key")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--moto", type=pathlib.Path, required=True)
    parser.add_argument("--writes", type=int, default=400)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    with nodes.workspace("backup") as folder:
        s3 = s3_server.S3Server(arguments.moto, folder)
        try:
            tools, nats = Tools(arguments.programs, s3), nats_server.NatsServer(folder / "nats")
            world = World(arguments.programs, folder, arguments.seed, NAME, nats, 2, 1, FLAGS, DIM, has_whole=True)
            with world.started():
                writer = Writer(world, arguments.seed)
                writer.start()
                writer.wait_for(arguments.writes)
                check_quiet(world, tools, writer)
                print("check_quiet", flush=True)
                check_busy(world, tools, arguments.seed)
                print("check_busy", flush=True)
                for check in (check_big, check_interrupted, check_damaged, check_refusals):
                    check(world, tools)
                    print(check.__name__, flush=True)
        finally:
            s3.kill()


if __name__ == "__main__":
    main()
