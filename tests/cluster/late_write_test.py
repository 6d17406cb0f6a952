"""A failed write that arrives late must not undo a later write of the same document.

    late_write_test.py FOLDER_OF_THE_PROGRAMS [--rounds 2]

Two replicas of one group follow a stream of NATS JetStream. The test cuts the connection from one replica to the router
or to NATS. Data that is sent meanwhile arrives when the cut ends. The test deletes a document until a delete is not
acknowledged. Then it writes the document again, which the other replica acknowledges, and ends the cut. The delete
arrives now, but the document must remain.
"""

import argparse
import contextlib
import pathlib
import shutil
import time

import compare
import nats_server
import nodes
import oracle as exact
import server as client
import wires
from numbered import vectors

NAME, DIM = "docs", 16
LINKS = ["router/g0-a", "g0-a/nats"]
WRITE_LIMIT_S, PATIENCE_S = 1, 120
RETRIABLE = (4, 14)  # DEADLINE_EXCEEDED, UNAVAILABLE
ARRIVAL_S = 3  # delayed data arrives within moments, and a replica that wrongly accepts it applies it at once


class World:
    def __init__(self, programs, folder, stack):
        self.nats = nats_server.NatsServer(folder / "nats")
        self.nats.start()
        stack.callback(self.nats.kill)
        storage = exact.Storage("f16", DIM)
        documents = {f"base-{number}": exact.Document(storage, vectors(number, DIM)) for number in range(5)}
        exact.build_collection(programs, folder / "base", NAME, storage, documents)
        flags = {"live.log": "nats", "nats.url": self.nats.url, "nats.replicas": 1, "nats.timeout": "1s"}
        self.cluster = nodes.Cluster(programs, folder, {}, [{}], 2, flags)
        address = self.nats.url.removeprefix("nats://")
        to_nats = stack.enter_context(wires.Relays({f"{node.name}/nats": address for node in self.cluster.replicas()}))
        for node in [self.cluster.single, *self.cluster.replicas()]:
            shutil.copytree(folder / "base", node.folder / NAME)
            node.collections = {NAME: f"{node.folder / NAME},live"}
        for node in self.cluster.replicas():
            node.flags["nats.url"] = f"nats://{to_nats.said[f'{node.name}/nats']}"
        stack.enter_context(self.cluster)

        def targets():
            by_link = {f"router/{node.name}": node.target for node in self.cluster.replicas()}
            to_replicas = stack.enter_context(wires.Relays(by_link))
            self.net = wires.Several(to_nats, to_replicas)
            return {node.name: to_replicas.said[f"router/{node.name}"] for node in self.cluster.replicas()}

        self.cluster.start(targets)

    def upsert(self, id, payload):
        """Writes a document until the write is acknowledged. Returns its sequence."""
        request = client.upsert_request(NAME, [client.document(id, vectors(1, DIM), payload)])
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = compare.call(self.cluster.router.documents.Upsert, request, WRITE_LIMIT_S)
            if not isinstance(answer, compare.Failure):
                return answer.sequence
            assert answer.code in RETRIABLE, answer
            assert time.monotonic() < until, f"no write of {id} was taken in {PATIENCE_S} s: {answer}"

    def delete(self, id):
        """Returns whether the delete was acknowledged."""
        request = client.delete_request(NAME, [id])
        answer = compare.call(self.cluster.router.documents.Delete, request, WRITE_LIMIT_S)
        if not isinstance(answer, compare.Failure):
            return True
        assert answer.code in RETRIABLE, answer
        return False

    def payload(self, node, id, sequence):
        """Waits until the node has reached `sequence`. Returns the payload that the document has then."""
        request = client.get_request(NAME, [id], min_sequence=sequence)
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = compare.call(node.documents.Get, request, WRITE_LIMIT_S)
            if not isinstance(answer, compare.Failure):
                return answer.documents[0].payload if answer.documents else None
            assert time.monotonic() < until, f"{node.name} does not reach {sequence} in {PATIENCE_S} s: {answer}"
            time.sleep(0.05)


def try_to_undo(world, link, id):
    """Returns whether a delete failed while the link was cut."""
    world.upsert(id, '{"n":1}')
    world.net.cut(link)
    try:
        failed = False
        for _ in range(20):
            failed = not world.delete(id)
            if failed:
                break
            world.upsert(id, '{"n":1}')
        sequence = world.upsert(id, '{"n":2}')
    finally:
        world.net.heal(link)
    world.cluster.wait_ready()
    time.sleep(ARRIVAL_S)
    last = world.nats.stream_state(f"maxsim-{NAME}")["last_seq"]
    assert last >= sequence
    for node in world.cluster.replicas():
        found = world.payload(node, id, last)
        assert found == '{"n":2}', f"{link}: {node.name} holds {found} of {id}, acknowledged as message {sequence}"
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    with nodes.workspace("late-write") as folder, contextlib.ExitStack() as stack:
        world = World(arguments.programs.resolve(), folder, stack)
        for link in LINKS:
            failed = sum(try_to_undo(world, link, f"{link}-{number}") for number in range(arguments.rounds))
            assert failed, f"{link}: no delete failed while it was cut, so this means nothing"
            print(f"{link}: {failed} deletes failed in {arguments.rounds} rounds, and none came later", flush=True)


if __name__ == "__main__":
    main()
