"""Makes random requests with filters, groups, pages and lists for a single server and a router, and computes the
answers that they must give.

A server's ranking of the whole collection, without a filter, has the score and rank of every document. Together with
the oracle's payloads, it determines exactly what the server must answer to any other request with the same query. The
rankings themselves are compared with the oracle's scores, and the router's with the single server's.
"""

import bisect
import collections
import json

import filters
import numpy as np
import oracle as exact
import server as client
from maxsim.v1 import admin_pb2, documents_pb2, rerank_pb2

DIM, ALL = 8, 1000  # the collection has fewer than ALL documents
NUM_IDS = 150
GROUP_FIELD, FACET_FIELDS = "lang", ("lang", "tags")
ASKED_GROUPS = [*filters.KEYWORDS, "of no document"]
SINGLE, ROUTER = "the single server", "the router"


class Ranking:
    """A query, with a server's ranking of the whole collection for it: ids, and scores in FP32."""

    def __init__(self, rows, ids, scores):
        self.rows, self.ids, self.scores = rows, ids, scores
        self.score_of = dict(zip(ids, scores))


class Expected:
    """The hits that an answer must have: ids, scores, and values of the group_by field ([] without group_by)."""

    def __init__(self, ids, scores, values=()):
        self.ids, self.scores, self.values = list(ids), list(scores), list(values)


def page_of(ranked, request):
    """Returns the hits that the request selects from `ranked`, the (id, score) of the matching candidates in rank
    order."""
    if request.HasField("min_score"):
        ranked = [one for one in ranked if one[1] >= np.float32(request.min_score)]
    ranked = ranked[request.offset : request.offset + request.top_k]
    return Expected([id for id, _ in ranked], [score for _, score in ranked])


def groups_of(ranked, request, value_of):
    """Returns the hits of the groups that the request selects from `ranked`. value_of(id) returns a document's value of
    the group_by field, or None if it has none."""
    groups = collections.OrderedDict()
    for id, score in ranked:
        value = value_of(id)
        if value is None or (request.group_values and value not in request.group_values):
            continue
        if request.HasField("min_score") and score < np.float32(request.min_score):
            continue
        groups.setdefault(value, []).append((id, score))
    chosen = list(groups.items())[request.offset : request.offset + request.top_k]
    hits = [(value, *one) for value, members in chosen for one in members[: max(request.group_size, 1)]]
    return Expected([id for _, id, _ in hits], [score for _, _, score in hits], [value for value, _, _ in hits])


class Model:
    """A live collection on both servers, with random fields and sometimes codes, and its expected contents. `servers`
    maps the names SINGLE and ROUTER to nodes."""

    def __init__(self, servers, name, id_type, chooser):
        self.servers, self.name, self.id_type, self.chooser = servers, name, id_type, chooser
        others = [field for field in filters.FIELDS if field != GROUP_FIELD]
        self.fields = [GROUP_FIELD, *chooser.sample(others, chooser.randint(1, len(others)))]
        self.planes = chooser.choice([0, 0, 1, 4])
        self.random = filters.Random(chooser, self.fields)
        self.oracle = exact.Oracle(exact.Storage("f16", DIM), id_type)
        self.payloads = {}  # as objects, by id
        self.sorted_ids = []
        self.counts = collections.Counter()
        request = admin_pb2.CreateCollectionRequest(name=name, dim=DIM, storage=rerank_pb2.DATA_TYPE_F16)
        request.code_planes = self.planes
        request.id_type = {"string": rerank_pb2.ID_TYPE_STRING, "int64": rerank_pb2.ID_TYPE_INT64}[id_type]
        for field in self.fields:
            kind, path = filters.FIELDS[field]
            request.fields.add(name=field, kind=filters.KINDS[kind], path=path)
        for node in servers.values():
            node.admin.CreateCollection(request, timeout=client.CALL_LIMIT_S)

    # Writes.

    def _id(self):
        number = self.chooser.randrange(NUM_IDS)
        if self.id_type == "int64":
            return number * 7919 - (1 << 40)
        return ["", "a", "a/", "é", "\U0001f600"][number % 5] + str(number)

    def _key(self, id):
        return id if self.id_type == "int64" else id.encode()

    def rows(self, count):
        # Few different values, so that different documents often have equal scores.
        return np.array(self.chooser.choices([-1, -0.5, 0, 0.5, 1, 1.5], k=count * DIM), np.float32).reshape(count, DIM)

    def write(self):
        """Writes, deletes, deletes by a filter, or compacts, at both servers."""
        kinds = {"upsert": 10, "delete": 4, "delete_matching": 1, "compact": 1}
        kind = self.chooser.choices(list(kinds), kinds.values())[0]
        getattr(self, "_" + kind)()
        self.counts[kind] += 1
        self.sorted_ids = sorted(self.payloads, key=self._key)

    def _upsert(self):
        documents = {}
        for _ in range(self.chooser.choice([1, 5, 30])):
            documents[self._id()] = self.rows(self.chooser.randint(1, 4)), self.random.payload()
        texts = {id: json.dumps(payload, ensure_ascii=False) for id, (_, payload) in documents.items()}
        messages = [client.document(id, rows, texts[id]) for id, (rows, _) in documents.items()]
        for node in self.servers.values():
            node.upsert(client.upsert_request(self.name, messages))
        for id, (rows, payload) in documents.items():
            self.oracle.upsert(id, rows, texts[id])
            self.payloads[id] = payload

    def _forget(self, ids):
        for id in ids:
            if id in self.payloads:
                self.oracle.delete(id)
                del self.payloads[id]

    def _delete(self):
        ids = list({self._id() for _ in range(self.chooser.choice([1, 3, 10]))})
        for node in self.servers.values():
            node.delete(client.delete_request(self.name, ids))
        self._forget(ids)

    def _delete_matching(self):
        # Three conditions at once match few documents, so that some are left.
        tree = ("and", [self.random.tree(2) for _ in range(3)])
        ids = self.matching(tree)
        request = self._with_filter(documents_pb2.DeleteRequest(collection=self.name), tree)
        for name, node in self.servers.items():
            num_deleted = node.delete(request).num_deleted
            assert num_deleted == len(ids), f"{name} deleted {num_deleted} of {len(ids)}: {filters.text_of(tree)}"
        self._forget(ids)

    def _compact(self):
        for node in self.servers.values():
            if node.info(self.name).num_documents > 0:
                node.compact(self.name)

    # Reads.

    def matching(self, tree):
        """Returns the ids that match a filter (None: all), ascending."""
        return [id for id in self.sorted_ids if tree is None or filters.matches(tree, self.payloads[id])]

    def _with_filter(self, request, tree):
        if tree is not None and self.chooser.random() < 0.5:
            request.filter_text = filters.text_of(tree)
        elif tree is not None:
            request.filter.CopyFrom(filters.message_of(tree))
        return request

    def rank_all(self):
        """Ranks the whole collection for a new query on both servers. Compares the rankings with the oracle and with
        each other. Returns one Ranking per server."""
        rows = self.rows(self.chooser.randint(1, 6))
        ids = self.oracle.order()
        found = {}
        for name, node in self.servers.items():
            request = self._exact(client.rerank_request(self.name, rows, top_k=ALL))
            answer = node.rerank(request).results[0]
            got = list(self._ids(answer))
            assert sorted(got, key=self._key) == self.sorted_ids, f"{name} ranks other documents than there are"
            assert list(answer.scores) == sorted(answer.scores, reverse=True), f"{name}: scores do not fall"
            found[name] = Ranking(rows, got, [np.float32(score) for score in answer.scores])
        if ids:
            single = found[SINGLE]
            ordered = sorted(ids, key=lambda id: -single.score_of[id])
            assert single.ids == ordered, f"equal scores are not in the collection's order: {single.ids}"
            scores, magnitudes = self.oracle.whole().scores(rows)
            for id, score, magnitude in zip(ids, scores, magnitudes):
                got = [float(ranking.score_of[id]) for ranking in found.values()]
                assert len(set(got)) == 1, f"{id!r} has the scores {got}"
                assert abs(got[0] - score) <= exact.TOLERANCE * magnitude, f"{id!r}: {got[0]} instead of {score}"
        return found

    def _exact(self, request):
        """Lets a search with codes score every document, so that its answer is exact."""
        if self.planes:
            request.refinement.documents = 10 * ALL  # with group_by, at least (offset + top_k) * group_size
        return request

    def _ids(self, answer):
        return answer.int_ids.ids if self.id_type == "int64" else answer.string_ids.ids

    def _request(self, tree):
        """Returns a random request without queries."""
        chooser = self.chooser
        request = rerank_pb2.RerankRequest(collection=self.name, top_k=chooser.choice([1, 3, 10, 40, ALL]))
        if chooser.random() < 0.3:
            request.offset = chooser.randrange(chooser.choice([3, 40]))
            request.top_k = min(request.top_k, ALL - request.offset)
        if chooser.random() < 0.25:
            request.min_score = chooser.randrange(-2, 8)
        if chooser.random() < 0.4:
            request.group_by = GROUP_FIELD
            request.group_size = chooser.choice([0, 1, 2, 5])
            if chooser.random() < 0.25:
                request.group_values.extend(chooser.sample(ASKED_GROUPS, chooser.randint(1, 4)))
        request.return_payloads = chooser.random() < 0.1
        return self._exact(self._with_filter(request, tree))

    def search(self, rankings, tree):
        """Sends a random request with the rankings' query to both servers. The candidates are the whole collection, a
        random list, or the list of the ids that match the filter."""
        chooser, matching = self.chooser, set(self.matching(tree))
        kind = chooser.choice(["whole", "whole", "list", "matching" if matching else "whole"])
        request = self._request(None if kind == "matching" else tree)
        query = request.queries.add(tokens=client.matrix(next(iter(rankings.values())).rows))
        listed, unknown = [], []
        if kind == "whole":
            query.candidates.whole_collection.SetInParent()
        for name, node in self.servers.items():
            ranking = rankings[name]
            ranked = [(id, score) for id, score in zip(ranking.ids, ranking.scores) if id in matching]
            if kind == "matching":  # in the server's own order, in which it ranks documents of equal scores
                query.ClearField("candidates")
                client.add_ids(query.candidates, [id for id, _ in ranked])
            elif kind == "list":
                if not listed:
                    listed = [self._id() for _ in range(chooser.choice([1, 10, 200]))]
                    client.add_ids(query.candidates, listed)
                    unknown = [id for id in dict.fromkeys(listed) if id not in self.payloads]
                place = {id: place for place, id in reversed(list(enumerate(listed)))}
                ranked = sorted((one for one in ranked if one[0] in place), key=lambda one: (-one[1], place[one[0]]))
            wanted = self._select(ranked, request)
            self._compare(name, request, node.rerank(request), wanted, unknown)
        self.counts[f"{kind}{' grouped' if request.group_by else ''}"] += 1

    def _select(self, ranked, request):
        if not request.group_by:
            return page_of(ranked, request)
        return groups_of(ranked, request, lambda id: next(iter(filters.values_of(self.payloads[id], GROUP_FIELD)), None))

    def _compare(self, name, request, response, wanted, unknown):
        answer = response.results[0]
        for what, got, expected in (
            ("ids", list(self._ids(answer)), wanted.ids),
            ("scores", [np.float32(score) for score in answer.scores], wanted.scores),
            ("groups", list(answer.group_values), wanted.values),
        ):
            assert got == expected, f"{name}: {what} {got} instead of {expected}\n{request}"
        missing = answer.missing_int_ids.ids if self.id_type == "int64" else answer.missing_string_ids.ids
        assert set(missing) == set(unknown), f"{name}: missing {list(missing)} instead of {unknown}\n{request}"
        if request.return_payloads:
            payloads = [self.oracle.documents[id].payload for id in wanted.ids]
            assert list(answer.payloads) == payloads, f"{name}: other payloads than were written\n{request}"

    def count(self, tree):
        request = self._with_filter(documents_pb2.CountRequest(collection=self.name), tree)
        for name, node in self.servers.items():
            count = node.documents.Count(request, timeout=client.CALL_LIMIT_S).count
            assert count == len(self.matching(tree)), f"{name}: count {count} of {len(self.matching(tree))}\n{request}"
        self.counts["count"] += 1

    def facets(self, tree):
        field = self.chooser.choice([field for field in FACET_FIELDS if field in self.fields])
        limit = self.chooser.choice([1, 3, 100])
        request = documents_pb2.FacetsRequest(collection=self.name, field=field, limit=limit)
        self._with_filter(request, tree)
        ids, counts = self.matching(tree), collections.Counter()
        for id in ids:
            counts.update(set(filters.values_of(self.payloads[id], field)))
        values = sorted(counts.items(), key=lambda one: (-one[1], one[0].encode()))
        for name, node in self.servers.items():
            answer = node.documents.Facets(request, timeout=client.CALL_LIMIT_S)
            got = [(one.value, one.count) for one in answer.values], answer.num_values, answer.num_documents
            wanted = values[:limit], len(values), len(ids)
            assert got == wanted, f"{name}: facets {got} instead of {wanted}\n{request}"
        self.counts["facets"] += 1

    def scroll(self, tree):
        limit, ids = self.chooser.choice([1, 10, ALL]), self.matching(tree)
        request = documents_pb2.ScrollRequest(collection=self.name, limit=limit, return_payloads=True)
        self._with_filter(request, tree)
        first = 0
        if self.chooser.random() < 0.7:
            after = self._id()
            first = bisect.bisect_right([self._key(id) for id in ids], self._key(after))
            setattr(request, "after_int_id" if self.id_type == "int64" else "after_string_id", after)
        page = ids[first : first + limit]
        wanted = [(id, self.oracle.documents[id].payload) for id in page], first + limit < len(ids)
        for name, node in self.servers.items():
            answer = node.documents.Scroll(request, timeout=client.CALL_LIMIT_S)
            kind = "int_id" if self.id_type == "int64" else "string_id"
            got = [(getattr(one, kind), one.payload) for one in answer.documents], answer.has_more
            assert got == wanted, f"{name}: a page with {got} instead of {wanted}\n{request}"
        self.counts["scroll"] += 1
