"""Clients that write to servers of one stream, and a check that the servers have the written documents."""

import random
import threading
import time
import traceback

import grpc

import server as client
from nats_world import APPLIED, NAME, NUM_IDS, expect, rows_of


class Writer:
    """Writes to one server until `stop` is set. All writers use the same ids. Records the outcome of each write, None
    if the call failed and the outcome is unknown."""

    def __init__(self, server, number, seed):
        self.server, self.number = server, number
        self.chooser = random.Random(seed * 10 + number)
        self.writes = {}  # payload: (id, (outcome, sequence) or None)
        self.deletes = []  # (id, (outcome, sequence) or None)
        self.codes = set()  # of failed calls
        self.stop = threading.Event()
        self.problem = ""
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def step(self, count):
        ids = [f"new-{self.chooser.randrange(NUM_IDS)}" for _ in range(self.chooser.choice([1, 1, 4]))]
        if self.chooser.random() < 0.2:
            ids = list(dict.fromkeys(ids))
            request, made = client.delete_request(NAME, ids), None
            send = self.server.documents.Delete
        else:
            made = [f'{{"w":{self.number},"n":{count},"i":{i}}}' for i in range(len(ids))]
            request = client.upsert_request(
                NAME, [client.document(id, rows_of([self.number, count, i]), made[i]) for i, id in enumerate(ids)]
            )
            send = self.server.documents.Upsert
        try:
            results = send(request, timeout=20).results
        except (grpc.RpcError, ValueError) as error:
            if isinstance(error, grpc.RpcError):
                self.codes.add(error.code())
            results = [None] * len(ids)
            time.sleep(0.02)
        for i, (id, result) in enumerate(zip(ids, results)):
            outcome = result and (result.outcome, result.sequence)
            if made is None:
                self.deletes.append((id, outcome))
            else:
                self.writes[made[i]] = (id, outcome)

    def run(self):
        try:
            count = 0
            while not self.stop.is_set():
                count += 1
                self.step(count)
        except Exception:  # pylint: disable=broad-except  the main thread reports it
            self.problem = traceback.format_exc()

    def end(self):
        self.stop.set()
        self.thread.join()
        expect(not self.problem, self.problem)


def check_writes(world, writers, names):
    """Checks that each server has, for every id, the newest acknowledged write or a write of unknown outcome, and that
    no two acknowledged writes have the same sequence."""
    last = world.settle(*names)
    known, unknown, attempts = {}, {}, 0
    for writer in writers:
        attempts += len(writer.writes) + len(writer.deletes)
        for payload, (id, outcome) in writer.writes.items():
            if outcome is None:
                unknown.setdefault(id, set()).add(payload)
            else:
                expect(outcome[0] == APPLIED, f"an upsert of {id} without a version has outcome {outcome}")
                expect(outcome[1] not in known, f"two writes have the sequence {outcome[1]}")
                known[outcome[1]] = (id, payload)
        for id, outcome in writer.deletes:
            if outcome is None:
                unknown.setdefault(id, set()).add(None)
            elif outcome[0] == APPLIED:
                expect(outcome[1] not in known, f"two writes have the sequence {outcome[1]}")
                known[outcome[1]] = (id, None)
    expect(known and max(known) <= last, f"sequence {max(known, default=0)} was acknowledged, and the stream has {last}")
    expect(last <= attempts, f"the stream has {last} messages of {attempts} writes")
    newest = {}
    for sequence in sorted(known):
        id, payload = known[sequence]
        newest[id] = (sequence, payload)
    ids = [f"new-{i}" for i in range(NUM_IDS)]
    for name in names:
        stored = world.contents(name, ids)
        for id, (sequence, payload) in newest.items():
            found = stored.get(id)
            is_it = (found is None) == (payload is None) and (found is None or found[0] == payload)
            of_unknown = (found[0] if found else None) in unknown.get(id, set())
            expect(is_it or of_unknown, f"{name}: {id} is {found and found[:3]}, expected {payload} of {sequence}")
            if is_it and found is not None and found[2]:
                expect(found[2] == sequence, f"{name}: {id} has sequence {found[2]}, acknowledged {sequence}")
    world.expect_same(*names)
    return len(known)
