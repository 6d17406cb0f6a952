"""A tenant that attacks a server and a router must learn nothing about the documents of others, and change none of
them.

    tenant_test.py FOLDER_OF_THE_PROGRAMS [--requests 1500] [--seconds S] [--seed S]

Sends the same random calls, with the token of a tenant, to two worlds: with and without documents of other tenants. The
answers must be equal in both, except for times. No answer may contain a secret from another tenant's document. These
documents must be unchanged at the end. MAXSIM_TENANT_REQUESTS and MAXSIM_TEST_SEED also set the number of calls and the
seed.
"""

import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import time
import typing

import tenant_world
from tenant_world import ATTACKER, OPERATOR, ROLES, SECRET, World, metadata

import grpc
import nodes
import server as client
import tenant_attacks
from maxsim.v1 import admin_pb2, documents_pb2, rerank_pb2

SERVICES = {
    "Reranker": rerank_pb2.DESCRIPTOR.services_by_name["Reranker"],
    "Documents": documents_pb2.DESCRIPTOR.services_by_name["Documents"],
    "Admin": admin_pb2.DESCRIPTOR.services_by_name["Admin"],
}
LENGTHS = ("content-length", "date", "server-timing", "retry-after")  # headers that depend on times
WRITES = ("Upsert", "UpsertStream", "Delete")
STUBS = {"Reranker": "reranker", "Documents": "documents", "Admin": "admin"}


class Answer(typing.NamedTuple):
    text: bytes  # must be equal in both worlds: without times and, for writes, without sequences
    raw: bytes  # what must not have a secret
    code: str = "answers"
    has_ties: bool = False  # documents have equal scores


def details_of(raw):
    """Returns the sorted bytes of a google.rpc.Status, because the server sends its details in random order."""
    return bytes(sorted(raw))


def grpc_answer(node, service, name, request, token=ATTACKER):
    """Returns the answer to a gRPC call. Leaves out the sequences of writes, because the sequence counts the writes of
    all tenants (docs/internals/tenants.md)."""
    method = SERVICES[service].methods_by_name[name]
    call = getattr(getattr(node, STUBS[service]), name)
    argument = iter([request]) if method.client_streaming else request
    try:
        answer = call(argument, timeout=client.CALL_LIMIT_S, metadata=metadata(token))
        answers = list(answer) if method.server_streaming else [answer]
    except grpc.RpcError as error:
        details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        text = f"{error.code().name}: {error.details()}".encode()
        return Answer(text + details_of(details), text + details, error.code().name)
    scores, raw = [], b"".join(one.SerializeToString() for one in answers)
    for one in answers:
        if name == "RerankStream":
            one.status_details = details_of(one.status_details)
            one = one.response
        if "timings" in one.DESCRIPTOR.fields_by_name:
            one.ClearField("timings")
        if name in WRITES:
            one.ClearField("sequence")
            for result in getattr(one, "results", ()):
                result.ClearField("sequence")
        if name in ("Rerank", "RerankStream"):
            scores += [list(result.scores) for result in one.results]
    has_ties = any(len(set(row)) < len(row) for row in scores)
    text = b"\n".join(one.SerializeToString(deterministic=True) for one in answers)
    return Answer(text, raw, has_ties=has_ties)


def without_times(value):
    """Returns a JSON value without times, sequences, and the random ids that the server gives to answers."""
    if isinstance(value, list):
        return [without_times(one) for one in value]
    if not isinstance(value, dict):
        return "" if isinstance(value, str) and value.startswith("rerank-") else value
    return {key: without_times(one) for key, one in value.items() if key not in ("timings", "sequence")}


def http_answer(node, verb, path, body, token=ATTACKER):
    connection = http.client.HTTPConnection(node.host, node.http_port, timeout=client.CALL_LIMIT_S)
    try:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request(verb, path, body or None, headers)
        answer = connection.getresponse()
        raw = text = answer.read()
    finally:
        connection.close()
    try:
        text = json.dumps(without_times(json.loads(text)), sort_keys=True).encode()
    except ValueError:
        pass
    headers = json.dumps(sorted(item for item in answer.getheaders() if item[0].lower() not in LENGTHS)).encode()
    return Answer(f"{answer.status} ".encode() + headers + text, raw + headers, f"HTTP {answer.status}")


def answer_of(node, call):
    kind, name, argument = call
    if kind == "HTTP":
        return http_answer(node, name, *argument)
    return grpc_answer(node, kind, name, argument)


def shorten(call):
    return f"{call[0]} {call[1]}: {str(call[2])[:1500]}"


class Attack:
    def __init__(self, worlds, chooser):
        self.worlds = self.with_others, self.alone = worlds
        self.chooser, self.attacks = chooser, tenant_attacks.Attacks(chooser)
        self.counts, self.codes = collections.Counter(), collections.Counter()

    def send(self):
        """Sends one call to the same role (server or router) of both worlds, and compares the answers."""
        role = self.chooser.choice(ROLES)
        if self.chooser.random() < 0.01:
            call = self.attacks.steal_id()
            answer = answer_of(self.with_others.roles[role], call)
            assert answer.code == "PERMISSION_DENIED", f"{role}: {answer.raw[:500]}\n{shorten(call)}"
        else:
            call = self.attacks.next()
            answer = answer_of(self.with_others.roles[role], call)
            alone = answer_of(self.alone.roles[role], call)
            # A router may rank equal scores in another order in the other world, because their order depends on the
            # groups' sequences.
            if answer.text != alone.text and answer.has_ties and role == "router":
                self.counts["equal scores"] += 1
            else:
                said = f"{role} tells {answer.text[:1500]}\nand alone {alone.text[:1500]}"
                assert answer.text == alone.text, f"{said}\n{shorten(call)}"
        assert SECRET.encode() not in answer.raw, f"{role} tells a secret: {answer.raw[:1500]}\n{shorten(call)}"
        self.counts[f"{call[0]} {call[1]}"] += 1
        self.codes[answer.code] += 1

    def check_that_a_leak_is_noticed(self):
        """With the operator's token the same comparison finds the documents of others."""
        for role in ROLES:
            request = documents_pb2.ScrollRequest(collection="docs", return_payloads=True)
            answers = [grpc_answer(world.roles[role], "Documents", "Scroll", request, OPERATOR) for world in self.worlds]
            assert answers[0].text != answers[1].text and SECRET.encode() in answers[0].raw, f"{role}: {answers}"

    def check_every_call_was_tried(self):
        for service, descriptor in SERVICES.items():
            for method in descriptor.methods:
                assert self.counts[f"{service} {method.name}"], f"{service}.{method.name} was never attacked"


def run(programs, folder, requests, seconds, chooser):
    worlds = [World(programs, folder / name, number, name == "others") for number, name in enumerate(("others", "alone"))]
    with worlds[0], worlds[1]:
        seed = chooser.random()
        for world in worlds:
            world.start(random.Random(seed))
        before = {role: worlds[0].others(role) for role in ROLES}
        assert all(len(found) == 2 * len(tenant_world.OTHER_IDS) for found in before.values()), "the others are missing"
        attack = Attack(worlds, chooser)
        attack.check_that_a_leak_is_noticed()
        done, until = 0, time.monotonic() + seconds
        while done < requests and time.monotonic() < until:
            attack.send()
            done += 1
            if done % 100_000 == 0:
                print(f"{done} requests", flush=True)
        for role in ROLES:
            assert worlds[0].others(role) == before[role], f"{role}: documents of others have changed"
        print(dict(sorted(attack.counts.items())), dict(sorted(attack.codes.items())), sep="\n")
        if done >= 1500:
            attack.check_every_call_was_tried()
            for code in ("answers", "NOT_FOUND", "PERMISSION_DENIED", "INVALID_ARGUMENT"):
                assert attack.codes[code], f"no call ended with {code}"
        return done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=pathlib.Path)
    parser.add_argument("--requests", type=int, default=int(os.environ.get("MAXSIM_TENANT_REQUESTS", 1500)))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MAXSIM_TEST_SEED", "1")))
    arguments = parser.parse_args()
    print(f"MAXSIM_TEST_SEED={arguments.seed}", flush=True)
    begin = time.monotonic()
    with nodes.workspace("tenant") as folder:
        chooser = random.Random(arguments.seed)
        done = run(arguments.programs, folder, arguments.requests, arguments.seconds, chooser)
    print(f"{done} requests of {arguments.requests} in {time.monotonic() - begin:.0f} s, and nothing was seen")


if __name__ == "__main__":
    main()
