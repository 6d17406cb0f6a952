"""Servers must find out, through a bucket of NATS JetStream, that another server created a live collection. They must
warn before their stream drops messages that they have not applied.

    shared_test.py FOLDER_OF_THE_PROGRAMS [--only NAME]
"""

import argparse
import base64
import json
import pathlib
import re
import time
import urllib.request

import grpc
import numpy as np

import server as client
from maxsim.v1 import admin_pb2, rerank_pb2
from nats_world import Servers, eventually, expect, run_tests

BUCKET, NAME, DIM = "maxsim", "cor.pus", 16
KEY, STREAM = "collections.cor=pus", "maxsim-cor+pus"
MARGIN = re.compile(r'^maxsim_live_stream_retention_margin_ratio{collection="cor.pus"} (\S+)$', re.M)


class World(Servers):
    """Servers without collections."""

    def add(self, name, learns=True, **flags):
        folder = self.folder / name
        folder.mkdir()
        flags = {
            **client.NEVER_COMPACTS,
            "live.log": "nats",
            "nats.url": self.nats.url,
            "nats.replicas": 1,
            "nats.timeout": "1m",
            "live.create_from_cluster": str(learns).lower(),
            **{key.replace("__", "."): value for key, value in flags.items()},
        }
        self.servers[name] = client.Server(self.programs, folder, flags)
        self.servers[name].start()
        return self.servers[name]


def create(server, dim=DIM, name=NAME, **fields):
    request = admin_pb2.CreateCollectionRequest(name=name, dim=dim, **fields)
    return server.admin.CreateCollection(request, timeout=client.CALL_LIMIT_S).collection


def create_when_followed(server, **fields):
    """Creates the collection on a server that may not be connected to NATS yet."""

    def is_created():
        try:
            create(server, **fields)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            return False
        return True

    eventually(is_created, "the server creates the collection")


def wait_for(server, name=NAME):
    """Waits until the server serves the collection and accepts writes to it. Returns its CollectionInfo."""

    def serves():
        info = server.info(name)
        return info is not None and info.HasField("live") and not info.error and not info.live.error

    eventually(serves, lambda: f"the server serves {name}: {server.info(name)}\n{server.log_end(2000)}")
    return server.info(name)


def write(server, id, value=0.5, payload=""):
    rows = np.full((2, DIM), value, np.float32)
    return server.upsert(client.upsert_request(NAME, [client.document(id, rows, payload)]))


def wait_for_document(server, id, payload):
    def has():
        found = server.get(client.get_request(NAME, [id])).documents
        return [one.payload for one in found] == [payload]

    eventually(has, f"the server has document {id}")


def settings_of(world):
    """Returns the value of the collection's key, or None."""
    answer = world.nats.ask(f"STREAM.MSG.GET.KV_{BUCKET}", json.dumps({"last_by_subj": f"$KV.{BUCKET}.{KEY}"}).encode())
    if "error" in answer or b"KV-Operation" in base64.b64decode(answer["message"].get("hdrs", "")):
        return None
    return json.loads(base64.b64decode(answer["message"]["data"]))


def margin_of(server):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/metrics", timeout=client.CALL_LIMIT_S) as answer:
        found = MARGIN.search(answer.read().decode())
    return None if found is None else float(found[1])


def test_a_second_server_learns_a_collection(world):
    world.nats.start()
    a, b = world.add("a"), world.add("b")
    create_when_followed(
        a,
        code_planes=4,
        fields=[rerank_pb2.FieldDeclaration(name="lang", kind=rerank_pb2.FIELD_KIND_KEYWORD)],
    )
    begin = time.monotonic()
    info = wait_for(b)
    print(f"  the other server had the collection after {time.monotonic() - begin:.3f} s")
    expect(info.dim == DIM and info.code_planes == 4, f"the collection has other settings: {info}")
    expect(pathlib.Path(info.path) == world.folder / "b" / NAME, f"the collection lies in {info.path}")
    wait_for(a)
    write(a, "x", payload='{"lang":"en"}')
    wait_for_document(b, "x", '{"lang":"en"}')
    write(b, "y", payload='{"lang":"de"}')
    wait_for_document(a, "y", '{"lang":"de"}')
    # A later server gets the documents from the stream.
    c = world.add("c")
    wait_for(c)
    wait_for_document(c, "x", '{"lang":"en"}')
    # A server that does not learn is asked to create it, with the same settings.
    d = world.add("d", learns=False)
    with client.refused(grpc.StatusCode.FAILED_PRECONDITION) as refused:
        create(d, code_planes=2)
    expect('code_planes: is "2"' in refused[0].details() and '"4"' in refused[0].details(), refused[0].details())
    expect(d.info(NAME) is None, "a refused call has created the collection")


def test_a_learned_collection_outlasts_restarts(world):
    world.nats.start()
    a, b = world.add("a"), world.add("b")
    create_when_followed(a)
    wait_for(b)
    write(b, "x", payload='{"v":1}')
    b.kill()
    world.nats.kill()
    b.start()
    expect(b.info(NAME) is not None, "a server without NATS does not serve what it has learned")
    world.nats.start()
    wait_for(b)
    wait_for_document(b, "x", '{"v":1}')
    expect(b.log().count("shared_collection_created") == 1, "the server has created the collection twice")


def test_nats_may_be_away_at_the_start(world):
    a, b = world.add("a", nats__timeout="2s"), world.add("b", nats__timeout="2s")
    with client.refused(grpc.StatusCode.UNAVAILABLE) as refused:
        create(a)
    expect("nats.url" in refused[0].details(), refused[0].details())
    expect(a.info(NAME) is None and not (world.folder / "a" / NAME).exists(), "a failed call has created something")
    world.nats.start()
    create_when_followed(a)
    wait_for(b)


def test_servers_know_their_slots(world):
    world.nats.start()
    a = world.add("a", cluster__partition="0/2")
    b = world.add("b", cluster__partition="1/2")
    create_when_followed(a)
    info = wait_for(b)
    expect((info.partition.first_slot, info.partition.end_slot) == (2048, 4096), f"b holds {info.partition}")
    expect(settings_of(world)["partitioned"] is True, f"the value is {settings_of(world)}")
    c = world.add("c")
    eventually(lambda: "shared_collection_not_created" in c.log(), "the log says why c creates nothing")
    expect("cluster.partition" in c.log(), "the log names the key to set")
    expect(c.info(NAME) is None, "a server without slots has created the collection")


def test_a_layout_gives_the_slots(world):
    world.nats.start()
    a = world.add("a", cluster__group="g0")
    create_when_followed(a)
    wait_for(a)
    b = world.add("b", cluster__group="g1")
    eventually(lambda: "shared_collection_not_created" in b.log(), "b waits for a layout")
    owners = [
        rerank_pb2.SlotOwner(group=group, slots=rerank_pb2.PartitionInfo(first_slot=first, end_slot=end))
        for group, first, end in (("g0", 0, 3000), ("g1", 3000, 4096))
    ]
    request = admin_pb2.SetLayoutRequest(name=NAME, owners=owners)
    a.admin.SetLayout(request, timeout=client.CALL_LIMIT_S)
    info = wait_for(b)
    expect((info.partition.first_slot, info.partition.end_slot) == (3000, 4096), f"b holds {info.partition}")


def test_unloads(world):
    world.nats.start()
    a, b = world.add("a"), world.add("b")
    create_when_followed(a)
    wait_for(b)
    # Without remove_settings, the collection is unloaded from this server only, and only until it restarts.
    b.unload(NAME)
    create(a, name="marker")
    wait_for(b, "marker")
    expect(b.info(NAME) is None, "an unloaded collection was created again")
    expect(settings_of(world) is not None, "an unload at one server has removed the settings")
    b.stop()
    b.start()
    wait_for(b)
    # With it, no server creates the collection again, and those that have it keep it.
    request = admin_pb2.UnloadCollectionRequest(name=NAME, remove_settings=True)
    b.admin.UnloadCollection(request, timeout=client.CALL_LIMIT_S)
    expect(settings_of(world) is None, f"the settings are still {settings_of(world)}")
    wait_for(a)
    b.stop()
    b.start()
    wait_for(b, "marker")
    expect(b.info(NAME) is None, "a collection that is not shared any more was created")
    expect((world.folder / "b" / NAME / "collection.json").exists(), "the folder was removed")


def test_an_operator_repairs_a_key(world):
    world.nats.start()
    a, b = world.add("a"), world.add("b")
    create_when_followed(a, name="marker")
    wait_for(b, "marker")
    world.nats.request(f"$KV.{BUCKET}.{KEY}", b'{"dim": 7}')
    eventually(lambda: "shared_collection_ignored" in b.log(), "a wrong value is logged")
    expect(KEY in b.log() and "dim is 7" in b.log(), "the log line names the key and the reason")
    with client.refused(grpc.StatusCode.FAILED_PRECONDITION):
        create(a)
    world.nats.remove_key(BUCKET, KEY)
    create(a)
    wait_for(b)


def test_a_server_warns_before_it_loses_its_stream(world):
    world.nats.start()
    a, b = world.add("a"), world.add("b")
    create_when_followed(a)
    wait_for(b)
    for i in range(10):
        write(a, f"x{i}")
    wait_for_document(b, "x9", "")
    expect(margin_of(a) == 1 and margin_of(b) == 1, f"the margins are {margin_of(a)} and {margin_of(b)}")
    expect("stream_retention_short" not in b.log(), "the server warns although it has everything")
    b.stop()
    for i in range(10):
        write(a, f"y{i}")
    last = world.nats.stream_state(STREAM)["last_seq"]
    world.nats.ask(f"STREAM.PURGE.{STREAM}", json.dumps({"seq": last - 2}).encode())
    b.start()
    eventually(lambda: margin_of(b) == 0, lambda: f"the margin of b is {margin_of(b)}")
    eventually(lambda: b.log().count("stream_retention_short") == 1, "the server warns once")
    expect(margin_of(a) == 1, f"the margin of a is {margin_of(a)}")


TESTS = {name[5:]: test for name, test in list(globals().items()) if name.startswith("test_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--only", choices=sorted(TESTS))
    arguments = parser.parse_args()
    programs = arguments.programs.resolve()
    run_tests(TESTS, arguments.only, lambda _, folder: World(programs, folder))


if __name__ == "__main__":
    main()
