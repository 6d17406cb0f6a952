"""Random calls of a tenant that tries to read, count, change or detect documents of other tenants. Covers every gRPC
call and the HTTP paths."""

import json

from tenant_world import DIM, OTHER_IDS, OWN_IDS, own_payload, rows_of

import server as client
from maxsim.v1 import admin_pb2, documents_pb2, rerank_pb2

FILTERS = [
    'owner = "victim"', 'not owner = "mallory"', "exists(secret)", "not exists(owner)", 'owner in ("victim", "mallory")',
    'secret = "mine" or not secret = "mine"', "year >= 0", "year < 3 and not year = 1", 'tags = "a"', 'tags in ("a", "b")',
    'not (owner = "mallory" and exists(year))', "exists(owner) or not exists(owner)", 'unknown = "x"', "year = ",
    'not not owner != "mallory"', 'tags = "c" or owner = "victim"',
]  # fmt: skip
COLLECTIONS = ["docs"] * 12 + ["vault", "nothing", "", "../vault", "docs/../vault", "DOCS"]
UNKNOWN_IDS = [f"u-{number}" for number in range(20)]
# A sequence that no world reaches. The attacker may learn the current sequence, because answers to writes contain it.
NO_SEQUENCE = 1 << 50
PATHS = [
    "/v1/collections", "/v1/collections/docs", "/v1/collections/vault", "/v1/collections/nothing", "/v1/models",
    "/v1/models/vault", "/info", "/v1/stats", "/metrics", "/console/questions.json", "/readyz", "/livez",
    "/v1/collections/docs%2f..%2fvault", "/v1/collections/docs/../vault", "//v1/collections/vault",
    "/v1/collections/vault/documents/v-1", "/v1/collections/docs/documents/v-1/../v-2",
]  # fmt: skip


class Attacks:
    """Makes calls: (kind, method or verb, message or (path, body)). The calls depend only on `chooser`, so that two
    worlds can get the same calls."""

    def __init__(self, chooser):
        self.chooser = chooser
        self.number = 0  # of the last document that was written
        self.admin_methods = []  # that have not had their turn

    def next(self):
        makers = {
            self.rerank: 10, self.stream: 4, self.explain: 2, self.get: 3, self.scroll: 3, self.count: 3,
            self.facets: 3, self.upsert: 2, self.delete: 2, self.admin: 1, self.info: 0.5, self.read_path: 1,
            self.post: 4, self.change_over_http: 1,
        }  # fmt: skip
        return self.chooser.choices(list(makers), makers.values())[0]()

    def _some(self, share):
        return self.chooser.random() < share

    def ids(self, most=12):
        groups = self.chooser.choice([[OWN_IDS, OTHER_IDS, UNKNOWN_IDS], [OTHER_IDS], [OWN_IDS], [OTHER_IDS, UNKNOWN_IDS]])
        return [self.chooser.choice(self.chooser.choice(groups)) for _ in range(self.chooser.randint(1, most))]

    def select(self, request):
        """Sets what most requests have: a collection and, sometimes, a filter, `visible`, a generation or a
        sequence."""
        request.collection = self.chooser.choice(COLLECTIONS)
        if self._some(0.5):
            request.filter_text = self.chooser.choice(FILTERS)
        if self._some(0.2):
            # A tenant that sends its own `visible` must not see more documents because of it.
            wider = request.visible.any_of.filters
            wider.add().exists = self.chooser.choice(["owner", "secret", "year"])
            wider.add().negation.exists = "owner"
        elif self._some(0.1):
            request.visible.in_slots.SetInParent()
            request.visible.in_slots.end_slot = 4096
        if self._some(0.03):
            request.generation = self.chooser.choice([1, 2, 99])
        if self._some(0.03):
            request.min_sequence = self.chooser.choice([1, NO_SEQUENCE])
        return request

    def rerank_request(self):
        chooser = self.chooser
        request = self.select(rerank_pb2.RerankRequest(top_k=chooser.choice([1, 5, 1000])))
        for _ in range(chooser.randint(1, 2)):
            query = request.queries.add(tokens=client.matrix(rows_of(5000 + chooser.randrange(1 << 20))))
            if self._some(0.5):
                query.candidates.whole_collection.SetInParent()
            else:
                client.add_ids(query.candidates, self.ids())
        if self._some(0.2):
            request.offset = chooser.choice([1, 5, 30, 60])
            request.top_k = 20
        if self._some(0.2):
            request.min_score = chooser.choice([-5, 0, 5])
        if self._some(0.25):
            request.group_by = chooser.choice(["owner", "secret", "secret", "tags"])
            request.group_size = chooser.choice([0, 1, 50])
            if self._some(0.3):
                request.group_values.extend(["victim", "mine"])
        request.return_payloads, request.return_alignments = self._some(0.5), self._some(0.2)
        if request.return_payloads and self._some(0.3):
            request.payload_fields.extend(["secret", "owner"])
        if self._some(0.1):
            request.missing_policy = rerank_pb2.MISSING_POLICY_FAIL
        request.return_token_pairs = self._some(0.2)
        return request

    def rerank(self):
        return "Reranker", "Rerank", self.rerank_request()

    def stream(self):
        request = self.rerank_request()
        request.request_id = "r"
        return "Reranker", "RerankStream", request

    def explain(self):
        request = rerank_pb2.RerankRequest(collection=self.chooser.choice(COLLECTIONS))
        request.queries.add(tokens=client.matrix(rows_of(9)))
        client.add_ids(request.candidates, self.ids(1))
        return "Reranker", "Explain", request

    def info(self):
        return "Reranker", "GetInfo", rerank_pb2.GetInfoRequest()

    def get(self):
        request = client.get_request(self.chooser.choice(COLLECTIONS), self.ids(), return_tokens=self._some(0.5))
        return "Documents", "Get", request

    def scroll(self):
        request = self.select(documents_pb2.ScrollRequest(limit=self.chooser.choice([1, 7, 1000])))
        request.return_payloads, request.return_tokens = self._some(0.5), self._some(0.2)
        if self._some(0.5):
            request.after_string_id = self.ids(1)[0]
        return "Documents", "Scroll", request

    def count(self):
        return "Documents", "Count", self.select(documents_pb2.CountRequest(return_token_bytes=self._some(0.5)))

    def facets(self):
        field = self.chooser.choice(["owner", "secret", "tags", "year", "unknown"])
        return "Documents", "Facets", self.select(documents_pb2.FacetsRequest(field=field, limit=1000))

    def document(self):
        self.number += 1
        return client.document(self.chooser.choice(OWN_IDS), rows_of(self.number), own_payload(self.chooser))

    def upsert(self):
        documents = [self.document()]
        if self._some(0.3):
            documents[0].payload = self.chooser.choice(['{"owner": "victim"}', "{}", '{"owner": null}'])
        request = client.upsert_request(self.chooser.choice(COLLECTIONS), documents)
        return "Documents", self.chooser.choice(["Upsert", "UpsertStream"]), request

    def steal_id(self):
        """Writes a document under the id of another tenant's document. Use only in the world with other tenants."""
        document = self.document()
        document.string_id = self.chooser.choice(OTHER_IDS)
        return "Documents", self.chooser.choice(["Upsert", "UpsertStream"]), client.upsert_request("docs", [document])

    def delete(self):
        version = self.chooser.choice([0, 0, 0, 1 << 40])
        if version or self._some(0.7):
            ids = self.ids(3)
            if version:  # a version on an own id would make later writes stale
                ids = [id for id in ids if id not in OWN_IDS] or [OTHER_IDS[0]]
            return "Documents", "Delete", client.delete_request(self.chooser.choice(COLLECTIONS), ids, version)
        request = documents_pb2.DeleteRequest(collection=self.chooser.choice(COLLECTIONS))
        request.filter_text = self.chooser.choice(['owner = "victim"', 'not owner = "mallory"', "not exists(owner)"])
        if self._some(0.3):
            request.visible.negation.exists = "owner"
        return "Documents", "Delete", request

    def admin(self):
        # Calls the methods of Admin in turn, because one run makes few such calls and must have tried each method.
        if not self.admin_methods:
            self.admin_methods = list(admin_pb2.DESCRIPTOR.services_by_name["Admin"].methods)
            self.chooser.shuffle(self.admin_methods)
        method = self.admin_methods.pop()
        request = getattr(admin_pb2, method.input_type.name)()
        for field in ("name", "collection"):
            if field in method.input_type.fields_by_name:
                setattr(request, field, self.chooser.choice(["docs", "vault"]))
        return "Admin", method.name, request

    # HTTP.

    def read_path(self):
        path = self.chooser.choice(PATHS)
        if self._some(0.3):
            path = f"/v1/collections/{self.chooser.choice(['docs', 'vault'])}/documents/{self.ids(1)[0]}"
        return "HTTP", "GET", (path, b"")

    def post(self):
        chooser = self.chooser
        name = chooser.choice(["docs"] * 6 + ["vault", "nothing"])
        body = {"filter": chooser.choice(FILTERS)} if self._some(0.6) else {}
        kind = chooser.choice(["rerank", "explain", "count", "facets", "scroll", "get"])
        if kind in ("rerank", "explain"):
            tokens = rows_of(chooser.randrange(1 << 20)).tolist()
            body |= {"model": name, "query": tokens, "documents": self.ids(1 if kind == "explain" else 12)}
            if kind == "rerank" and self._some(0.4):
                body |= {"group_by": chooser.choice(["owner", "secret"]), "offset": chooser.randrange(3)}
            return "HTTP", "POST", (f"/v1/{kind}", json.dumps(body).encode())
        if kind in ("count", "facets"):
            body |= {"collection": name} | ({"field": chooser.choice(["owner", "secret"])} if kind == "facets" else {})
            return "HTTP", "POST", (f"/v1/{kind}", json.dumps(body).encode())
        body = {"ids": self.ids()} if kind == "get" else {**body, "limit": 50, "return_payloads": True}
        return "HTTP", "POST", (f"/v1/collections/{name}/documents/{kind}", json.dumps(body).encode())

    def change_over_http(self):
        name = self.chooser.choice(["docs", "docs", "vault"])
        verb = self.chooser.choice(["DELETE", "PUT", "POST"])
        if verb == "DELETE":
            body = {"ids": [self.chooser.choice(OTHER_IDS)]} if self._some(0.5) else {"filter": 'owner = "victim"'}
            return "HTTP", verb, (f"/v1/collections/{name}/documents", json.dumps(body).encode())
        if verb == "PUT":
            path = self.chooser.choice([f"/v1/collections/{name}", f"/v1/collections/{name}/layout"])
            return "HTTP", verb, (path, json.dumps({"dim": DIM}).encode())
        path = self.chooser.choice(["compact", "snapshot"])
        return "HTTP", verb, (f"/v1/collections/{name}/{path}", json.dumps({"path": "/tmp/stolen"}).encode())
