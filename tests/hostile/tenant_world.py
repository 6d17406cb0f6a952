"""Two worlds for an attacker that is a tenant. In one, other tenants have documents in the attacker's collection, and a
collection of their own. In the other, only the attacker has documents. The attacker must get the same answers in both,
because a difference would reveal something about the other tenants.

Each world has a server and a router over two groups of servers.
"""

import json
import pathlib
import sys
import time

import grpc
import numpy as np

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / folder) for folder in ("cluster", "live")]
import nodes  # noqa: E402
import server as client  # noqa: E402
from maxsim.v1 import admin_pb2, documents_pb2, rerank_pb2  # noqa: E402

DIM = 16
ATTACKER, VICTIM, OPERATOR = "token-of-mallory", "token-of-victim", "token-of-the-operator"
TOKENS = f"""{ATTACKER} {{"tenant": "mallory", "collections": ["docs"], "filter": "owner = \\"mallory\\""}}
{VICTIM} {{"tenant": "victim", "filter": "owner = \\"victim\\""}}
"""
# The payload of every document of other tenants contains this secret. The attacker never sends it. So an answer that
# contains it reveals a document of another tenant.
SECRET = "zq7-secret-"
OWN_IDS = [f"m-{number}" for number in range(60)]
OTHER_IDS = [f"v-{number}" for number in range(40)]  # of the victim, or of documents without an owner
FIELDS = {"owner": "KEYWORD", "secret": "KEYWORD", "tags": "KEYWORDS", "year": "INTEGER"}
ROLES = ("server", "router")
# A busy machine may keep a request in the queue for more than a second, and its answer would then differ between the
# worlds.
PATIENT = {**client.NEVER_COMPACTS, "batching.max_queue_time": "60s"}


def metadata(token):
    return [("authorization", f"Bearer {token}")] if token else []


def own_payload(chooser):
    payload = {"owner": "mallory", "year": chooser.randrange(5), "tags": chooser.choices("abc", k=2)}
    return json.dumps(payload if chooser.random() < 0.8 else {**payload, "secret": "mine"})


def rows_of(number):
    rng = np.random.default_rng(number)
    return rng.standard_normal((1 + number % 4, DIM)).astype(np.float32)


class World:
    """`number` is 0 or 1, and makes the addresses of the two worlds different."""

    def __init__(self, programs, folder, number, has_others):
        self.folder, self.has_others = folder, has_others
        folder.mkdir()
        (folder / "tokens").write_text("token-of-a-reader\n")
        (folder / "write_tokens").write_text(TOKENS)
        (folder / "admin_tokens").write_text(OPERATOR + "\n")
        tokens = {"auth.tokens_file": folder / "tokens", "auth.admin_tokens_file": folder / "admin_tokens"}
        tokens["auth.write_tokens_file"] = folder / "write_tokens"
        self.hosts = iter(nodes.loopback(10 * number + host) for host in range(100, 110))
        self.groups = [
            self._node(programs, f"g{index}", {"cluster.partition": f"{index}/2", **PATIENT})
            for index in range(2)
        ]
        self.roles = {
            "server": self._node(programs, "server", {**PATIENT, **tokens}),
            "router": self._node(programs, "router", {**nodes.ROUTER, **tokens}),
        }

    def _node(self, programs, name, flags):
        node = nodes.Node(programs, self.folder / name, next(self.hosts), flags, {})
        node.flags["store.allowed_roots"] = node.folder
        return node

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in [*self.roles.values(), *self.groups]:
            if node.process is not None:
                node.kill()

    def start(self, chooser):
        for node in self.groups:
            node.start()
        targets = [f"g{index}={node.target}" for index, node in enumerate(self.groups)]
        self.roles["router"].flags["cluster.groups"] = ",".join(targets)
        for node in self.roles.values():
            node.start()
        self._fill(chooser)

    def _fill(self, chooser):
        """Writes the attacker's documents and, in the world with other tenants, their documents in between."""
        own = [client.document(id, rows_of(index), own_payload(chooser)) for index, id in enumerate(OWN_IDS[:40])]
        others = []
        for index, id in enumerate(OTHER_IDS):
            payload = {"secret": f"{SECRET}{index}", "year": index % 5, "tags": [f"{SECRET}{index % 7}", "a"]}
            payload |= {"owner": "victim"} if index % 4 else {}
            others.append(client.document(id, rows_of(1000 + index), json.dumps(payload)))
        for node in self.roles.values():
            self._create(node, "docs")
            if self.has_others:
                self._create(node, "vault")
                self._upsert(node, "vault", others)
            for first in range(0, 40, 10):
                if self.has_others:
                    self._upsert(node, "docs", others[first : first + 10])
                self._upsert(node, "docs", own[first : first + 10])

    @staticmethod
    def _upsert(node, name, documents):
        request = client.upsert_request(name, documents)
        node.documents.Upsert(request, timeout=client.CALL_LIMIT_S, metadata=metadata(OPERATOR))

    @staticmethod
    def _create(node, name):
        request = admin_pb2.CreateCollectionRequest(name=name, dim=DIM, storage=rerank_pb2.DATA_TYPE_F16)
        request.id_type = rerank_pb2.ID_TYPE_STRING
        for field, kind in FIELDS.items():
            request.fields.add(name=field, kind=getattr(rerank_pb2, f"FIELD_KIND_{kind}"))
        until = time.monotonic() + client.READY_LIMIT_S
        while True:
            try:
                return node.admin.CreateCollection(request, timeout=client.CALL_LIMIT_S, metadata=metadata(OPERATOR))
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def others(self, role):
        """Returns the documents of others, serialized, with their vectors."""
        found = []
        for name in ("docs", "vault"):
            request = documents_pb2.ScrollRequest(collection=name, limit=1000, return_payloads=True, return_tokens=True)
            request.filter_text = 'not owner = "mallory"'
            stub = self.roles[role].documents
            answer = stub.Scroll(request, timeout=client.CALL_LIMIT_S, metadata=metadata(OPERATOR))
            found += [document.SerializeToString(deterministic=True) for document in answer.documents]
        return found
