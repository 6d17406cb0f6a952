"""Several maxsimd servers share a collection's layout (which group owns which slots) in a bucket of NATS JetStream.

    layout_test.py FOLDER_OF_THE_PROGRAMS [--only NAME]
"""

import argparse
import contextlib
import functools
import http.client
import json
import pathlib
import threading
import time

import grpc

import nats_server
import server as client
from maxsim.v1 import admin_pb2, rerank_pb2
from nats_world import NAME, World, eventually, expect, run_tests, upsert

BUCKET, KEY = "maxsim", "layout.cor=pus"

# A server reads all keys of the bucket every minute. A change that it has earlier came by its watch on the bucket.
WATCH_LIMIT_S = 30

# maxsimd may write to its streams, but has no access to the bucket. The test's own calls use the user `tester`.
WITHOUT_BUCKETS = """
authorization { users: [
  { user: tester, password: tester }
  { user: maxsimd, password: "pass-word", permissions: { publish: { deny: ["$KV.>", "$JS.API.*.*.KV_maxsim"] } } }
] }
no_auth_user: tester
"""


def owners(middle):
    return [
        rerank_pb2.SlotOwner(group=group, slots=rerank_pb2.PartitionInfo(first_slot=first, end_slot=end))
        for group, first, end in (("g0", 0, middle), ("g1", middle, 4096))
    ]


def set_layout(server, expected_revision, middle=2048):
    request = admin_pb2.SetLayoutRequest(name=NAME, expected_revision=expected_revision, owners=owners(middle))
    return server.admin.SetLayout(request, timeout=client.CALL_LIMIT_S).layout


def set_when_followed(server, expected_revision, middle=2048):
    """Sets a layout on a server that may not be connected to NATS yet, or not again."""
    found = []

    def is_set():
        try:
            found.append(set_layout(server, expected_revision, middle))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
        return bool(found)

    eventually(is_set, "the server sets a layout")
    return found[0]


def layout_of(world, name):
    """Returns the layout that a server reports, without numbers of documents, or None."""
    live = world.live(name)
    if not live.HasField("layout"):
        return None
    for owner in live.layout.owners:
        owner.ClearField("num_documents")
    return live.layout


def wait_for_layout(world, layout, *names):
    for name in names:
        eventually(
            lambda name=name: layout_of(world, name) == layout,
            lambda name=name: f"{name} reports {layout}, not {layout_of(world, name)}",
            WATCH_LIMIT_S,
        )


def ask_http(server, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=client.CALL_LIMIT_S)
    with contextlib.closing(connection):
        headers = {} if body is None else {"Content-Type": "application/json"}
        connection.request(method, f"/v1/collections/{NAME}{path}", None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())


def test_every_server_sees_a_layout(world):
    world.nats.start()
    a, _ = world.add("a"), world.add("b")
    expect(layout_of(world, "a") is None, "a collection has a layout that nobody set")
    layout = set_when_followed(a, 0)
    expect(list(layout.owners) == owners(2048), f"the layout is {layout}")
    wait_for_layout(world, layout, "a", "b")
    begin = time.monotonic()
    layout = set_layout(a, layout.revision, 1000)
    wait_for_layout(world, layout, "b")
    print(f"  the other server saw a layout after {time.monotonic() - begin:.3f} s")
    upsert(a, "x", 1)
    world.settle("a", "b")


def test_http_sets_and_shows_a_layout(world):
    world.nats.start()
    a = world.add("a")
    layout = set_when_followed(a, 0)
    wait_for_layout(world, layout, "a")
    as_json = [
        {"group": one.group, "slots": {"first_slot": one.slots.first_slot, "end_slot": one.slots.end_slot}}
        for one in owners(7)
    ]
    code, answer = ask_http(a, "PUT", "/layout", {"expected_revision": layout.revision, "owners": as_json})
    expect(code == 200 and answer["owners"] == as_json and answer["revision"] > layout.revision, f"{code} {answer}")
    eventually(lambda: ask_http(a, "GET", "")[1]["live"].get("layout") == answer, "HTTP shows the layout")
    code, refused = ask_http(a, "PUT", "/layout", {"expected_revision": layout.revision, "owners": as_json})
    error = refused["error"]
    expect(code == 409 and error["field"] == "expected_revision" and error["reason"] == "OTHER_REVISION", f"{refused}")
    expect(f"revision {answer['revision']}" in error["message"], f"{refused}")


def layout_when_equal(world):
    """Waits until both servers report the same layout. Returns it."""
    eventually(lambda: layout_of(world, "a") == layout_of(world, "b"), "both servers report one layout", WATCH_LIMIT_S)
    return layout_of(world, "a")


def compete(world, rounds):
    """Both servers repeatedly set a layout at the same time. Returns the last layout."""
    layout = set_when_followed(world.servers["a"], 0)
    layout = set_when_followed(world.servers["b"], layout.revision)
    wait_for_layout(world, layout, "a", "b")
    for number in range(rounds):
        outcomes = {}

        def set_at(name, number=number, revision=layout.revision, outcomes=outcomes):
            try:
                outcomes[name] = set_layout(world.servers[name], revision, 2 * number + 1 + (name == "b"))
            except grpc.RpcError as error:
                outcomes[name] = error.code()

        threads = [threading.Thread(target=set_at, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        won = [outcome for outcome in outcomes.values() if not isinstance(outcome, grpc.StatusCode)]
        lost = [outcome for outcome in outcomes.values() if isinstance(outcome, grpc.StatusCode)]
        if grpc.StatusCode.UNAVAILABLE in lost:  # NATS was slow, so nobody knows whether this call has won
            expect(len(won) <= 1, f"two competing calls had the outcomes {outcomes}")
            layout = set_when_followed(world.servers["a"], layout_when_equal(world).revision)
        else:
            expect(len(won) == 1 and lost == [grpc.StatusCode.ABORTED], f"competing calls had the outcomes {outcomes}")
            layout = won[0]
        wait_for_layout(world, layout, "a", "b")
    return layout


def test_of_competing_calls_one_wins(world):
    world.nats.start()
    world.add("a"), world.add("b")
    compete(world, 10)


def test_a_layout_has_three_copies(world):
    """The bucket has three copies. After its leader is killed, it must still be possible to set the layout."""
    world.nats.start()
    for name in "ab":
        world.add(name, flags=world.flags(**{"nats.replicas": 3, "nats.timeout": "10s"}))
    # With three copies, Debian's nats-server sometimes (1 in 10) accepts both of two messages with the same expected
    # revision.
    layout = compete(world, 40)
    leader = world.nats.leader_of(f"KV_{BUCKET}")
    leader.kill()
    layout = set_when_followed(world.servers["a"], layout.revision, 99)
    wait_for_layout(world, layout, "a", "b")
    leader.start()


def test_a_layout_outlasts_restarts(world):
    world.nats.start()
    a, b = world.add("a"), world.add("b")
    layout = set_when_followed(a, 0)
    wait_for_layout(world, layout, "a", "b")
    world.nats.kill()
    with client.refused(grpc.StatusCode.UNAVAILABLE):
        set_layout(a, layout.revision)
    expect(layout_of(world, "b") == layout, "a layout is lost while NATS is away")
    # A server that starts while NATS is away knows no layout until NATS is back.
    b.stop()
    world.start("b")
    expect(layout_of(world, "b") is None, "a server without NATS knows a layout")
    world.nats.start()
    wait_for_layout(world, layout, "a", "b")
    layout = set_when_followed(b, layout.revision, 7)
    wait_for_layout(world, layout, "a", "b")
    a.kill()
    world.start("a")
    wait_for_layout(world, layout, "a")


def test_nats_may_be_away_at_the_start(world):
    a = world.add("a")
    expect(layout_of(world, "a") is None, "a collection has a layout that nobody set")
    with client.refused(grpc.StatusCode.UNAVAILABLE) as refused:
        set_layout(a, 0)
    expect("nats.url" in refused[0].details(), refused[0].details())
    world.nats.start()
    layout = set_when_followed(a, 0)
    wait_for_layout(world, layout, "a")
    expect(a.log().count("layouts_not_followed") == 1, "the log does not say once that NATS was away")
    expect("layouts_followed" in a.log(), "the log does not say that NATS is back")


def test_an_operator_repairs_a_key(world):
    world.nats.start()
    a = world.add("a")
    layout = set_when_followed(a, 0)
    wait_for_layout(world, layout, "a")
    world.nats.request(f"$KV.{BUCKET}.{KEY}", b'{"owners": []}')
    eventually(lambda: "layout_ignored" in a.log(), "a wrong value is logged")
    expect(KEY in a.log() and "owners: is empty" in a.log(), "the log line names the key and the reason")
    expect(layout_of(world, "a") == layout, "a wrong value changes the layout")
    with client.refused(grpc.StatusCode.ABORTED):
        set_layout(a, layout.revision)
    world.nats.remove_key(BUCKET, KEY)
    wait_for_layout(world, None, "a")
    again = set_layout(a, 0)
    expect(again.revision > layout.revision, "a revision comes again")
    wait_for_layout(world, again, "a")
    a.unload(NAME)
    a.load(NAME, world.folder / "a" / "collection", live=True)
    wait_for_layout(world, again, "a")


def test_a_server_without_access_to_the_bucket_serves(world):
    world.nats.start()
    url = world.nats.url.replace("//", "//maxsimd:pass-word@")
    a = world.add("a", flags=world.flags(**{"nats.url": url}))
    world.wait_connected("a")
    upsert(a, "x", 1, '{"v":1}')
    eventually(lambda: "layouts_not_followed" in a.log(), "the log says that the bucket cannot be read")
    with client.refused(grpc.StatusCode.FAILED_PRECONDITION) as refused:
        set_layout(a, 0)
    expect("permissions" in refused[0].details(), refused[0].details())
    expect(layout_of(world, "a") is None, "a collection has a layout that nobody set")
    upsert(a, "y", 1)
    expect(world.contents("a", ["x"])["x"][0] == '{"v":1}', "a server without a bucket does not serve")
    expect(a.log().count("layouts_not_followed") == 1, "the log says it more than once")
    expect("pass-word" not in a.log(), "the log has the password")


TESTS = {name[5:]: test for name, test in list(globals().items()) if name.startswith("test_")}


def options_of(name):
    """Returns the options of the world of a test."""
    if "three_copies" in name:
        return {"nats": nats_server.NatsCluster}
    if "without_access" in name:
        return {"nats": functools.partial(nats_server.NatsServer, more=WITHOUT_BUCKETS)}
    return {}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--only", choices=sorted(TESTS))
    arguments = parser.parse_args()
    programs = arguments.programs.resolve()
    run_tests(TESTS, arguments.only, lambda name, folder: World(programs, folder, **options_of(name)))


if __name__ == "__main__":
    main()
