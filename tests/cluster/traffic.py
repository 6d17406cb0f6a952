"""Random requests of every kind, valid and invalid, from a seed."""

import base64
import random

import nodes  # noqa: F401  which finds the modules of tests/live
import numpy as np
import server as client
from maxsim.v1 import documents_pb2, rerank_pb2
from numbered import query_vectors

MANY = 10_000  # limits.max_top_k
FIELDS = ["n", "title", "deep", "absent"]
DATA_TYPES = {"f32": rerank_pb2.DATA_TYPE_F32, "f16": rerank_pb2.DATA_TYPE_F16, "bf16": rerank_pb2.DATA_TYPE_BF16}


def matrix(rows, dtype="f32"):
    if dtype != "bf16":
        return client.matrix(rows, dtype)
    data = (np.ascontiguousarray(rows, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    kind = rerank_pb2.DATA_TYPE_BF16
    return rerank_pb2.TokenMatrix(dtype=kind, num_tokens=len(rows), dim=rows.shape[1], data=data.tobytes())


class Traffic:
    """Makes random requests. `generation` is the generation of the collections from which requests take their ids."""

    def __init__(self, seed, corpora, generation=1):
        self.chooser, self.count = random.Random(seed), 0
        self.corpora = corpora
        self.known = {one.name: one.ids(generation) for one in corpora}
        self.strangers = {one.name: one.strangers() for one in corpora}

    def _rows(self, dim):
        rows = query_vectors(self.chooser.randrange(1 << 30), dim)
        return np.sign(rows) if self.chooser.random() < 0.3 else rows

    def ids(self, corpus, strangers=True):
        """Returns a list of ids, some repeated. With `strangers`, some of the ids may not exist in the collection."""
        known, chooser = self.known[corpus.name], self.chooser
        ids = chooser.sample(known, min(len(known), chooser.choice([1, 2, 10, 40, 200])))
        if strangers and chooser.random() < 0.5:
            ids += chooser.sample(self.strangers[corpus.name], chooser.choice([1, 3, 20]))
        if chooser.random() < 0.5:
            ids += chooser.choices(ids, k=chooser.choice([1, 4]))
        chooser.shuffle(ids)
        return ids

    def _inline(self, target, dim):
        chooser = self.chooser
        dtype = chooser.choice(list(DATA_TYPES))
        made = [self._rows(dim) for _ in range(chooser.choice([1, 2, 5, 20]))]
        made += chooser.choices(made, k=chooser.choice([0, 2]))
        target.documents.extend(matrix(rows, dtype) for rows in made)

    def _candidates(self, target, corpus, kind, strangers):
        if kind == "whole":
            target.whole_collection.SetInParent()
        elif kind == "inline":
            self._inline(target.inline_documents, corpus.dim)
        else:
            client.add_ids(target, self.ids(corpus, strangers))

    def right(self, strangers=True, corpus=None):
        """Returns a valid request. Without strangers, all its ids exist."""
        chooser = self.chooser
        corpus = corpus or chooser.choice(self.corpora)
        request = rerank_pb2.RerankRequest(collection=corpus.name, request_id=str(self.count))
        self.count += 1
        kinds = ["ids", "ids", "ids", "whole", "inline"]
        alone = chooser.random() < 0.08  # inline documents without a collection
        if alone:
            request.collection, kinds = "", ["inline"]
        shared = chooser.random() < 0.7
        if shared:
            self._candidates(request.candidates, corpus, chooser.choice(kinds), strangers)
        for _ in range(chooser.choice([1, 1, 1, 2, 5])):
            query = request.queries.add(tokens=matrix(self._rows(corpus.dim), chooser.choice(list(DATA_TYPES))))
            if chooser.random() < 0.3:
                count = query.tokens.num_tokens
                query.weights.extend(chooser.choice([1.0, 0.5, -2.0, 0.0]) for _ in range(count))
            if not shared or chooser.random() < 0.3:
                self._candidates(query.candidates, corpus, chooser.choice(kinds), strangers)
        request.top_k = chooser.choice([0, 1, 2, 3, 10, 50, corpus.size, MANY])
        if request.top_k < MANY and chooser.random() < 0.3:
            request.offset = chooser.choice([1, 3, 20, corpus.size])
        if chooser.random() < 0.2:
            request.min_score = chooser.choice([-1.0, 0.0, 0.5, 2.0, 6.25])
        request.priority = chooser.randrange(4)
        request.return_payloads = chooser.random() < 0.3
        request.normalize = chooser.random() < 0.3
        request.return_alignments = chooser.random() < 0.2
        if chooser.random() < 0.2:
            request.payload_fields.extend(chooser.sample(FIELDS, chooser.randrange(1, 4)))
        if not alone and chooser.random() < 0.1:
            request.generation = 1
        asked = [request.candidates, *(query.candidates for query in request.queries)]
        if corpus.fields and not any(one.HasField("inline_documents") for one in asked) and chooser.random() < 0.4:
            self._add_filter(request)
        if corpus.fields and not any(one.HasField("inline_documents") for one in asked) and chooser.random() < 0.3:
            request.group_by = chooser.choice(["book", "book", "title"])
            request.group_size = chooser.choice([0, 1, 2, 5])
            request.top_k = min(request.top_k, 500)
        if not strangers and chooser.random() < 0.3:
            request.missing_policy = rerank_pb2.MISSING_POLICY_FAIL
        return request

    def filter_text(self):
        """Returns a filter over the fields n and title, which most documents have."""
        chooser = self.chooser
        n, more = chooser.randrange(420), chooser.choice([0, 1, 20, 400])
        return chooser.choice(
            [
                f"n >= {n} and n < {n + more}",
                f"n > {n} or not exists(title)",
                f"not n in ({n}, {n + 1})",
                f'title = "T {n} \\"é\\"\\n" or n = {n + 2}',
                "exists(n) and not exists(n)",
            ]
        )

    def _add_filter(self, request):
        if self.chooser.random() < 0.5:
            request.filter_text = self.filter_text()
            return
        low = request.filter.negation.range if self.chooser.random() < 0.5 else request.filter.range
        low.field = "n"
        low.low.value.integer_value = self.chooser.randrange(420)
        low.low.exclusive = self.chooser.random() < 0.5

    def wrong(self):
        """Returns a request with a fault, which may be in any of its queries."""
        request = self.right()
        faults = [name for name in dir(self) if name.startswith("_wrong_")]
        getattr(self, self.chooser.choice(faults))(request, self.chooser.choice(request.queries))
        return request

    def next(self):
        return self.wrong() if self.chooser.random() < 0.2 else self.right()

    def _corpus(self, request):
        return next((one for one in self.corpora if one.name == request.collection), self.corpora[0])

    # Each of these functions makes a valid request invalid. It changes the request or one of its queries.

    def _wrong_other_ids(self, request, query):
        others = [5, 6] if self._corpus(request).id_type == "string" else ["5", "6"]
        client.add_ids(query.candidates, others)

    def _wrong_no_ids(self, request, query):
        query.candidates.string_ids.SetInParent()

    def _wrong_empty_id(self, request, query):
        client.add_ids(query.candidates, ["doc-1", ""])

    def _wrong_long_id(self, request, query):
        client.add_ids(query.candidates, ["doc-1", "y" * 513])

    def _wrong_no_candidates(self, request, query):
        request.ClearField("candidates")
        query.ClearField("candidates")

    def _wrong_candidates(self, request, query):
        query.candidates.Clear()
        query.candidates.SetInParent()

    def _wrong_dim(self, request, query):
        query.tokens.CopyFrom(matrix(self._rows(query.tokens.dim + 1)))

    def _wrong_nan(self, request, query):
        rows = self._rows(query.tokens.dim)
        rows[-1, -1] = self.chooser.choice([np.nan, np.inf])
        del query.weights[:]
        query.tokens.CopyFrom(matrix(rows))

    def _wrong_data(self, request, query):
        query.tokens.data = query.tokens.data[:-1]

    def _wrong_no_tokens(self, request, query):
        query.ClearField("tokens")

    def _wrong_dtype(self, request, query):
        query.tokens.dtype = rerank_pb2.DATA_TYPE_I8

    def _wrong_weights(self, request, query):
        query.weights.append(1.0)
        if len(query.weights) == query.tokens.num_tokens:
            query.weights.append(1.0)

    def _wrong_weight(self, request, query):
        del query.weights[:]
        query.weights.extend([2e6] * query.tokens.num_tokens)

    def _wrong_top_k(self, request, query):
        request.top_k = MANY + 1

    def _wrong_offset(self, request, query):
        request.offset = MANY

    def _wrong_min_score(self, request, query):
        request.min_score = self.chooser.choice([np.nan, np.inf, -np.inf])

    def _wrong_group_by(self, request, query):
        request.group_by = self.chooser.choice(["n", "colour"])

    def _wrong_group_size(self, request, query):
        request.group_by = self.chooser.choice(["", "title"])
        request.group_size = MANY + 1

    def _wrong_no_queries(self, request, query):
        del request.queries[:]

    def _wrong_queries(self, request, query):
        copy = rerank_pb2.Query()
        copy.CopyFrom(query)
        request.queries.extend([copy] * 65)

    def _wrong_collection(self, request, query):
        request.collection = self.chooser.choice(["nowhere", "bad name", "n" * 129])

    def _wrong_no_collection(self, request, query):
        request.collection = ""
        client.add_ids(query.candidates, ["doc-1"])

    def _wrong_inline_dim(self, request, query):
        query.candidates.Clear()
        query.candidates.inline_documents.documents.extend(
            [matrix(self._rows(query.tokens.dim)), matrix(self._rows(query.tokens.dim + 3))]
        )

    def _wrong_inline_nan(self, request, query):
        query.candidates.Clear()
        rows = np.full((2, query.tokens.dim), np.nan)
        query.candidates.inline_documents.documents.extend([matrix(self._rows(query.tokens.dim)), matrix(rows)])

    def _wrong_no_inline(self, request, query):
        query.candidates.inline_documents.SetInParent()

    def _wrong_text(self, request, query):
        query.text = "a text, and no server has an encoder"
        query.ClearField("tokens")

    def _wrong_payload_fields(self, request, query):
        del request.payload_fields[:]
        request.payload_fields.extend([f"f{i}" for i in range(65)])

    def _wrong_payload_field(self, request, query):
        request.payload_fields.append("")

    def _wrong_generation(self, request, query):
        request.generation = 99

    def _wrong_sequence(self, request, query):
        request.min_sequence = 1

    def _wrong_filter(self, request, query):
        request.filter_text = self.chooser.choice(['n = "x"', "n =", "colour = 1", "title > 3"])

    def _wrong_filter_message(self, request, query):
        request.filter.all_of.filters.add(exists="n")
        request.filter.all_of.filters.add().equals.field = "n"

    def _wrong_unknown(self, request, query):
        """Makes a valid request fail only because of unknown ids, by MISSING_POLICY_FAIL."""
        corpus = self._corpus(request)
        request.collection = corpus.name
        request.missing_policy = rerank_pb2.MISSING_POLICY_FAIL
        ids = self.ids(corpus) + self.strangers[corpus.name][:3]
        query.candidates.Clear()
        client.add_ids(query.candidates, ids)

    # Other calls.

    def explain(self):
        corpus = self.chooser.choice(self.corpora)
        request = rerank_pb2.RerankRequest(collection=corpus.name)
        query = request.queries.add(tokens=matrix(self._rows(corpus.dim)))
        if self.chooser.random() < 0.3:
            query.weights.extend([0.5] * query.tokens.num_tokens)
        some = self.strangers if self.chooser.random() < 0.1 else self.known
        client.add_ids(request.candidates, [self.chooser.choice(some[corpus.name])])
        if corpus.fields and self.chooser.random() < 0.3:
            self._add_filter(request)
        fault = self.chooser.random()
        if fault < 0.1:
            client.add_ids(request.candidates, self.ids(corpus))
        elif fault < 0.15:
            request.candidates.whole_collection.SetInParent()
        elif fault < 0.2:
            self._wrong_dim(request, query)
        return request

    def get(self):
        corpus = self.chooser.choice(self.corpora)
        request = documents_pb2.GetRequest(collection=corpus.name, return_tokens=self.chooser.random() < 0.5)
        client.add_ids(request, self.ids(corpus))
        fault = self.chooser.random()
        if fault < 0.1:
            request.collection = "nowhere"
        elif fault < 0.2:
            request.ClearField("ids")
        elif fault < 0.3:
            request.min_sequence = 1
        elif fault < 0.4:
            client.add_ids(request, [5] if corpus.id_type == "string" else ["5"])
        return request

    def counting(self):
        corpus = self.chooser.choice(self.corpora)
        request = documents_pb2.CountRequest(collection=corpus.name)
        self._add_counted(corpus, request)
        return request

    def facets(self):
        corpus, chooser = self.chooser.choice(self.corpora), self.chooser
        request = documents_pb2.FacetsRequest(collection=corpus.name, limit=chooser.choice([0, 1, 3, 65_536, 65_537]))
        request.field = chooser.choice(["title", "title", "title", "n", "colour"])
        self._add_counted(corpus, request)
        return request

    def scroll(self):
        corpus, chooser = self.chooser.choice(self.corpora), self.chooser
        request = documents_pb2.ScrollRequest(collection=corpus.name, limit=chooser.choice([0, 1, 7, 40, 1000, 1001]))
        request.return_payloads = chooser.random() < 0.5
        request.return_tokens = chooser.random() < 0.2
        if chooser.random() < 0.6:
            after = chooser.choice(chooser.choice([self.known, self.strangers])[corpus.name])
            if chooser.random() < 0.1:
                after = 5 if corpus.id_type == "string" else "5"
            setattr(request, "after_string_id" if isinstance(after, str) else "after_int_id", after)
        self._add_counted(corpus, request)
        return request

    def _add_counted(self, corpus, request):
        if corpus.fields and self.chooser.random() < 0.7:
            self._add_filter(request)
        fault = self.chooser.random()
        if fault < 0.05:
            request.collection = "nowhere"
        elif fault < 0.1:
            request.min_sequence = 1
        elif fault < 0.15:
            request.generation = self.chooser.choice([1, 99])
        elif fault < 0.2:
            self._wrong_filter(request, None)

    def body(self):
        """Returns path and body of an HTTP call."""
        corpus, chooser = self.chooser.choice(self.corpora), self.chooser
        rows = self._rows(corpus.dim)
        body = {"model": corpus.name, "query": rows.tolist()}
        if chooser.random() < 0.5:
            data = base64.b64encode(rows.astype("<f2").tobytes()).decode()
            body["query"] = {"dtype": "f16", "shape": list(rows.shape), "data": data}
        path = chooser.choice(["/v1/rerank", "/v2/rerank", "/rerank"])
        if chooser.random() < 0.1:
            body["id"] = chooser.choice(self.known[corpus.name] + self.strangers[corpus.name][:20])
            return "/v1/explain", body
        kind = chooser.random()
        if kind < 0.5:
            ids = self.ids(corpus)
            body["documents"] = [{"id": id} if chooser.random() < 0.2 else id for id in ids]
        elif kind < 0.7:
            body["documents"] = "*"
        else:
            body["documents"] = [
                {"id": chooser.choice(["a", 7]), "tokens": self._rows(corpus.dim).tolist()} for _ in range(5)
            ]
            if chooser.random() < 0.3:
                body["model"] = "another-model"
        if path == "/rerank" and chooser.random() < 0.3:
            body["texts"] = body.pop("documents")
        body[chooser.choice(["top_n", "top_k"])] = chooser.choice([0, 1, 5, 1000])
        if chooser.random() < 0.2:
            body["offset"] = chooser.choice([0, 2, 9, MANY])
        if chooser.random() < 0.2:
            body[chooser.choice(["min_score", "score_threshold"])] = chooser.choice([-1, 0.5, 2])
        if corpus.fields and chooser.random() < 0.2:
            body["group_by"] = chooser.choice(["book", "title", "n"])
            body["group_size"] = chooser.choice([1, 3])
        for flag in ("return_documents", "return_alignments", "normalize"):
            if chooser.random() < 0.3:
                body[flag] = True
        if chooser.random() < 0.2:
            body["payload_fields"] = ["n", "deep"]
        if corpus.fields and chooser.random() < 0.3:
            tree = {"and": [{"field": "n", "gte": chooser.randrange(420)}, {"not": {"field": "title", "equals": "T"}}]}
            body["filter"] = chooser.choice([self.filter_text(), tree, "n = true", {"field": "colour", "exists": True}])
        fault = chooser.choice(["", "", "", "", "model", "member", "dim", "empty", "top"])
        if fault == "model":
            body["model"] = chooser.choice([None, "nowhere"])
        elif fault == "member":
            body["unheard_of"] = 1
        elif fault == "dim":
            body["query"] = self._rows(corpus.dim + 1).tolist()
        elif fault == "empty":
            body["texts" if "texts" in body else "documents"] = []
        elif fault == "top":
            body["top_n"] = MANY + 1
        return path, body
