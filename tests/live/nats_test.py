"""Several maxsimd servers that follow one stream must apply the same writes in the same order, whatever fails.

    nats_test.py FOLDER_OF_THE_PROGRAMS [--rounds 2] [--seed S] [--only NAME]

MAXSIM_TEST_SEED sets the seed.
"""

import argparse
import os
import pathlib
import random
import subprocess
import threading
import time

import grpc
import numpy as np

import nats_server
import server as client
from maxsim.v1 import documents_pb2
from nats_world import (
    APPLIED,
    DIM,
    NAME,
    NUM_BASE,
    STREAM,
    TIMEOUT_S,
    World,
    eventually,
    expect,
    rows_of,
    run_tests,
    upsert,
)
from nats_writers import Writer, check_writes

STALE = documents_pb2.WRITE_OUTCOME_STALE
NOT_FOUND = documents_pb2.WRITE_OUTCOME_NOT_FOUND


def test_replicas_see_each_others_writes(world, _):
    world.nats.start()
    a, b = world.add("a"), world.add("b")
    world.wait_connected("a", "b")
    expect(world.live("a").log == "nats", "GetInfo does not say what orders the writes")
    first = upsert(a, "x", 1, '{"v":1}', version=5)
    expect((first.results[0].outcome, first.results[0].sequence) == (APPLIED, 1), f"the first write: {first}")
    stale = upsert(b, "x", 2, '{"v":2}', version=5)
    expect(stale.results[0].outcome == STALE, f"a version that is there already: {stale}")
    newer = upsert(b, "x", 3, '{"v":3}', version=6)
    expect(newer.results[0].outcome == APPLIED and newer.results[0].sequence == 3, f"a newer version: {newer}")
    missing = b.delete(client.delete_request(NAME, ["nobody"]))
    expect(missing.results[0].outcome == NOT_FOUND, f"a delete of nothing: {missing}")
    deleted = a.delete(client.delete_request(NAME, ["doc-3"]))
    expect(deleted.results[0].outcome == APPLIED, f"a delete: {deleted}")
    world.settle("a", "b")
    for name in ("a", "b"):
        stored = world.contents(name, ["x", "doc-3"])
        expect(list(stored) == ["x"] and stored["x"][:3] == ('{"v":3}', 6, 3), f"{name} has {stored}")
    world.expect_same("a", "b")
    expect(world.live("b").lag == 0, "a server that has applied all is behind")


def test_writers_at_both_servers_agree(world, seed):
    world.nats.start()
    world.add("a"), world.add("b")
    world.wait_connected("a", "b")
    writers = [Writer(world.servers["ab"[i % 2]], i, seed) for i in range(4)]
    time.sleep(1.5)
    for writer in writers:
        writer.end()
    count = check_writes(world, writers, ["a", "b"])
    expect(count > 50, f"only {count} writes in 1.5 s")
    print(f"  {count} writes in 1.5 s")


def test_kills_lose_and_double_nothing(world, seed, rounds=2):
    chooser = random.Random(seed)
    world.nats.start()
    world.add("a"), world.add("b")
    world.wait_connected("a", "b")
    writers = []
    for number in range(rounds):
        mine = [Writer(world.servers["ab"[i % 2]], 10 * number + i, seed) for i in range(4)]
        time.sleep(0.2 + chooser.random())
        if number % 2 == 0:
            world.servers["b"].kill()
        else:
            world.nats.kill()
        time.sleep(0.3)
        if number % 2 != 0:
            world.nats.start()
            world.wait_connected("a", "b")
        time.sleep(0.3)
        for writer in mine:
            writer.end()
        if number % 2 == 0:
            world.start("b")
            world.wait_connected("b")
        writers += mine
        check_writes(world, writers, ["a", "b"])


def test_reads_go_on_while_jetstream_is_away(world, _):
    world.nats.start()
    a = world.add("a")
    world.wait_connected("a")
    upsert(a, "x", 1, '{"v":1}')
    before = world.ranking("a")
    world.nats.kill()
    begin = time.monotonic()
    with client.refused(grpc.StatusCode.UNAVAILABLE) as refused:
        upsert(a, "x", 2, '{"v":2}')
    expect(time.monotonic() - begin < TIMEOUT_S + 3, "a write waited longer than nats.timeout")
    expect("nats.url" in refused[0].details() or "nats.timeout" in refused[0].details(), refused[0].details())
    eventually(lambda: "nats.url" in world.live("a").error, "GetInfo says that NATS is away")
    expect(world.ranking("a") == before, "a search has another answer while NATS is away")
    # A server that starts while NATS is away serves the documents in its own folder.
    a.stop()
    world.start("a")
    expect(world.ranking("a") == before, "a search has another answer after a start without NATS")
    with client.refused(grpc.StatusCode.UNAVAILABLE) as refused:
        upsert(a, "x", 3, '{"v":3}')
    expect("nats.url" in refused[0].details(), refused[0].details())
    world.nats.start()
    world.wait_connected("a")
    upsert(a, "x", 4, '{"v":4}')
    expect(world.contents("a", ["x"])["x"][0] == '{"v":4}', "a write after the return of NATS is not there")


def test_a_restart_catches_up(world, _):
    world.nats.start()
    a, b = world.add("a"), world.add("b")
    world.wait_connected("a", "b")
    upsert(a, "x", 0)
    world.settle("b")
    b.stop()
    for i in range(300):
        last = upsert(a, f"new-{i % 20}", [7, i], f'{{"n":{i}}}').sequence
    a.compact(NAME)
    world.start("b")
    eventually(lambda: world.live("b").sequence == last, "b has caught up")
    request = client.get_request(NAME, ["new-1"], min_sequence=last)
    expect(b.get(request).sequence >= last, "min_sequence")
    world.expect_same("a", "b")


def test_a_snapshot_begins_a_server(world, _):
    world.nats.start()
    a, b = world.add("a"), world.add("b")
    world.wait_connected("a", "b")
    for i in range(50):
        upsert(a, f"new-{i % 7}", [8, i], f'{{"n":{i}}}', version=i + 1)
    world.settle("b")
    b.stop()
    for i in range(50, 80):
        upsert(a, f"new-{i % 7}", [8, i], f'{{"n":{i}}}', version=i + 1)
    sequence = a.snapshot(NAME, world.folder / "a" / "snapshot")
    upsert(a, "behind", 1)
    purged = world.nats.ask(f"STREAM.PURGE.{STREAM}", f'{{"seq":{sequence - 10}}}'.encode())
    expect(purged.get("success"), f"purge: {purged}")
    # Server b was stopped, and messages that it has not applied were purged. Server c starts from a snapshot that
    # includes the effect of these messages.
    world.start("b")
    eventually(lambda: "snapshot" in world.live("b").error, f"b needs a snapshot: {world.live('b').error}")
    expect(len(world.ranking("b")[0]) > 0, "reads go on")
    with client.refused(grpc.StatusCode.FAILED_PRECONDITION):
        upsert(b, "x", 1)
    c = world.add("c", world.folder / "a" / "snapshot")
    world.wait_connected("c")
    world.settle("a", "c")
    world.expect_same("a", "c")
    answer = upsert(c, "new-1", 1, version=1)
    expect(answer.results[0].outcome == STALE, "a server that a snapshot began has forgotten the versions")


def test_a_foreign_stream_is_refused(world, _):
    world.nats.start()
    a = world.add("a")
    world.wait_connected("a")
    upsert(a, "x", 1, '{"v":1}')
    time.sleep(2)  # servers accept streams as the same one if their creation times differ by at most a second
    world.nats.ask(f"STREAM.DELETE.{STREAM}")
    b = world.add("b")  # makes a new stream of the same name
    world.wait_connected("b")
    upsert(b, "y", 1)
    eventually(lambda: "created again" in world.live("a").error, f"a refuses the new stream: {world.live('a').error}")
    expect(world.live("a").error.count(f"stream {STREAM} of ") == 2, f"both are named: {world.live('a').error}")
    with client.refused(grpc.StatusCode.FAILED_PRECONDITION):
        upsert(a, "x", 2)
    expect(world.contents("a", ["x", "y"])["x"][0] == '{"v":1}', "a still serves what it has")
    a.stop()
    a.flags["live.log"] = "local"
    try:
        world.start("a")
    except RuntimeError as error:
        expect("live.log is local" in str(error), str(error))
    else:
        raise AssertionError("the log of a stream was opened as a local one")


def test_a_message_has_a_largest_size(world, _):
    world.nats.start()
    a = world.add("a")
    world.wait_connected("a")
    rows = np.ones((600, DIM), np.float32)  # 19,200 bytes
    with client.refused(grpc.StatusCode.INVALID_ARGUMENT) as refused:
        a.upsert(client.upsert_request(NAME, [client.document("fits", rows_of(1)), client.document("large", rows)]))
    details = refused[0].details()
    expect("documents[1]" in details and "max_payload" in details and "16128" in details, details)
    expect(world.contents("a", ["fits"]) == {}, "a part of the call was written")
    a.upsert(client.upsert_request(NAME, [client.document("large", rows[:400])]))


def test_a_majority_of_nats_is_enough(world, seed):
    """The stream has three copies. The test repeatedly kills its leader while clients write to both servers."""
    world.nats.start()
    for name in "ab":
        world.add(name, flags=world.flags(**{"nats.replicas": 3, "nats.timeout": "10s"}))
    world.wait_connected("a", "b")
    writers = []
    for number in range(2):
        mine = [Writer(world.servers["ab"[i % 2]], 10 * number + i, seed) for i in range(4)]
        time.sleep(0.5)
        leader = world.nats.leader_of(STREAM)
        leader.kill()
        # The other two servers elect a leader, which takes some seconds. Clients then write to it.
        eventually(lambda: world.nats.leader_of(STREAM) is not leader, "the stream has a new leader")
        time.sleep(0.5)
        leader.start()
        for writer in mine:
            writer.end()
        writers += mine
        world.wait_connected("a", "b")
        check_writes(world, writers, ["a", "b"])
    codes = set().union(*(writer.codes for writer in writers))
    expect(grpc.StatusCode.FAILED_PRECONDITION not in codes, f"a failover was taken for lost messages: {codes}")
    failed = sum(outcome is None for writer in writers for _, outcome in [*writer.writes.values(), *writer.deletes])
    print(f"  {failed} writes of unknown outcome")


def test_servers_that_start_together_agree(world, _):
    """All servers create the stream at the same time. They must store the same identity of the stream, so that all of
    them follow it again after a restart."""
    world.nats.start()
    names = ["a", "b", "c", "d"]
    for name in names:
        world.add(name, flags=world.flags(**{"nats.replicas": 3, "nats.timeout": "10s"}), start=False)
    for _ in range(2):
        starters = [threading.Thread(target=world.start, args=(name,)) for name in names]
        for starter in starters:
            starter.start()
        for starter in starters:
            starter.join()
        world.wait_connected(*names)
        upsert(world.servers["a"], "x", 1)
        world.settle(*names)
        for name in names:
            world.servers[name].stop()


def run_shard_tool(world, *arguments):
    command = [str(part) for part in (world.programs / "maxsim-shard", *arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    expect(done.returncode == 0, f"{' '.join(command)}: {done.stderr}")


def split_in_two(world, source):
    """Returns the folders of the halves."""
    run_shard_tool(world, "split", source, "--into", "2", "--output", world.folder / "parts")
    parts = sorted(path for path in (world.folder / "parts").iterdir() if path.is_dir())
    expect(len(parts) == 2, f"split made {parts}")
    return parts


def test_halves_of_a_live_collection_follow_its_stream(world, _):
    """Splits a snapshot of a server in two while the server takes writes. Two new servers start with one half each, and
    follow the stream."""
    world.nats.start()
    a = world.add("a")
    world.wait_connected("a")
    ids = [f"new-{i}" for i in range(20)]
    for i in range(60):
        upsert(a, ids[i % 20], [8, i], f'{{"n":{i}}}', version=i + 1)
    deleted = a.delete(client.delete_request(NAME, ["new-3"], version=100))
    expect(deleted.results[0].outcome == APPLIED, f"a delete: {deleted}")
    cut = world.folder / "a" / "cut"
    a.snapshot(NAME, cut)
    run_shard_tool(world, "compact", cut)
    halves = split_in_two(world, cut)
    for i in range(60, 90):
        if i % 20 != 3:
            upsert(a, ids[i % 20], [8, i], f'{{"n":{i}}}', version=i + 1)
    a.delete(client.delete_request(NAME, ["new-4"], version=100))
    names = ["half-0", "half-1"]
    for name, half in zip(names, halves):
        world.add(name, half)
    world.wait_connected(*names)
    world.settle("a", *names)
    ids += [f"doc-{i}" for i in range(NUM_BASE)]
    whole = world.contents("a", ids)
    found = [world.contents(name, ids) for name in names]
    expect(len(whole) == len(ids) - 2 and all(found), f"a has {len(whole)} documents")
    for id in ids:
        held = [one[id] for one in found if id in one]
        expect(len(held) == (id in whole), f"{id} is {len(held)} times in the halves")
        for payload, version, _, tokens in held:
            expected = whole[id][0], whole[id][1], whole[id][3]
            expect((payload, version, tokens) == expected, f"{id} is {payload}, {version}; expected {expected[:2]}")
    # Writes that are older than those before and after the split do nothing.
    for id in ("new-1", "new-3", "new-4", "new-7"):
        try:  # The id belongs to exactly one of the halves. The other half refuses it.
            answer = upsert(world.servers["half-0"], id, 1, version=7)
        except grpc.RpcError as error:
            expect(error.code() == grpc.StatusCode.FAILED_PRECONDITION and "slot" in error.details(), error.details())
            answer = upsert(world.servers["half-1"], id, 1, version=7)
        expect(answer.results[0].outcome == STALE, f"an old write of {id}: {answer}")


def test_partitions_apply_their_own_writes(world, seed):
    """One server has the whole collection, two others have one half each. The merged answers of the two must equal the
    answers of the first."""
    parts = split_in_two(world, world.folder / "base")
    world.nats.start()
    names = ["whole", "half-0", "half-1"]
    for name, source in zip(names, [None, *parts]):
        world.add(name, source)
    world.wait_connected(*names)
    chooser = random.Random(seed)
    held = {}
    for i in range(300):
        id = f"new-{chooser.randrange(30)}" if chooser.random() < 0.7 else f"doc-{chooser.randrange(NUM_BASE)}"
        if chooser.random() < 0.2:
            world.servers["whole"].delete(client.delete_request(NAME, [id]))
            held.pop(id, None)
            continue
        payload = f'{{"n":{i}}}'
        try:  # The id belongs to exactly one of the halves. The other half refuses it.
            upsert(world.servers["half-0"], id, i // 2, payload)
        except grpc.RpcError as error:
            expect(error.code() == grpc.StatusCode.FAILED_PRECONDITION and "slot" in error.details(), error.details())
            upsert(world.servers["half-1"], id, i // 2, payload)
        held[id] = payload
    for repeat in range(2):
        world.settle(*names)
        for query in range(3):
            request = client.rerank_request(NAME, rows_of([9, query]), top_k=10_000)
            whole, *halves = [client.Ranking(world.servers[name].rerank(request).results[0]) for name in names]
            expect(all(half.ids for half in halves), "a half holds nothing")
            merged = [hit for half in halves for hit in zip(half.scores, half.positions, half.ids)]
            merged.sort(key=lambda hit: (-hit[0], hit[1]))
            expect([hit[2] for hit in merged] == whole.ids, "the halves rank otherwise than the whole")
            expect([hit[0] for hit in merged] == whole.scores, "the halves score otherwise than the whole")
        for id, payload in held.items():
            found = [world.contents(name, [id]) for name in names]
            expect(found[0][id][0] == payload, f"the whole has {found[0]} of {id}, expected {payload}")
            expect(sum(id in one for one in found[1:]) == 1, f"{id} is in {found[1:]}")
        if repeat == 0:
            for name in names:
                world.servers[name].compact(NAME)
            world.servers["half-1"].stop()
            world.start("half-1")


TESTS = {name[5:]: test for name, test in list(globals().items()) if name.startswith("test_")}


def options_of(name):
    """Returns the options of the world of a test."""
    options = {"max_payload": 16 << 10} if "size" in name else {}
    if "majority" in name or "together" in name:
        options["nats"] = nats_server.NatsCluster
    return options


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    parser.add_argument("--only", choices=sorted(TESTS))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)

    def call(name, test, world):
        extra = {"rounds": arguments.rounds} if "kills" in name else {}
        test(world, arguments.seed, **extra)

    programs = arguments.programs.resolve()
    run_tests(TESTS, arguments.only, lambda name, folder: World(programs, folder, **options_of(name)), call)


if __name__ == "__main__":
    main()
