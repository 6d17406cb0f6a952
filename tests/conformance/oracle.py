"""Computes the expected result of every call with NumPy. Uses no code of the server or the clients.

All values of documents and queries are small integers or multiples of 1/4. Then every product and sum is exact in FP16,
BF16 and FP32, in any order of addition. So every backend must return exactly the same scores."""

import copy

import numpy as np

import predicates

DEFAULT_TOP_K = 10  # limits.default_top_k
APPLIED, STALE, NOT_FOUND = "applied", "stale", "not_found"


class Collection:
    """The documents of one collection. A live collection also has versions and a sequence, which counts its writes."""

    def __init__(self, description, live=False):
        self.live = live
        self.fields = {field["name"]: field for field in description["fields"]}
        self.documents = {}
        self.versions = {}  # of ids that were written or deleted with a version
        self.sequence = 0
        for document in copy.deepcopy(description["documents"]):
            self.documents[document["id"]] = document

    def matching(self, filter):
        """Returns the ids of the documents that match, in the order of the collection."""
        wanted = predicates.parse(filter)
        return [id for id, document in self.documents.items() if wanted(self.values(document))]

    def values(self, document):
        """Returns the values of the document's fields, by name."""
        return {name: predicates.value_at(document.get("payload"), field) for name, field in self.fields.items()}

    def sorted_ids(self):
        """Returns all ids in the order in which Scroll lists them: integers ascending, strings by their UTF-8 bytes."""
        return sorted(self.documents, key=lambda id: id.encode() if isinstance(id, str) else id)

    def keeps(self, id, version):
        """Says whether a write with this version must leave the id as it is."""
        return version is not None and self.versions.get(id, 0) >= version


class Oracle:
    """Answers calls from its own copy of the collections."""

    def __init__(self, data):
        self.words = data["words"]
        self.unknown_word = data["unknown_word"]
        self.max_query_words = data["max_query_words"]
        self.max_document_words = data["max_document_words"]
        self.collections = {name: Collection(one) for name, one in data["collections"].items()}

    def start_live(self, description):
        """Replaces the live collection "notes" by a new one, into which each of these documents is written
        separately."""
        self.collections["notes"] = notes = Collection({**description, "documents": []}, live=True)
        self.upsert({"collection": "notes", "documents": description["documents"]})
        return notes

    def answer(self, method, arguments):
        """Returns the result of a call that succeeds."""
        return getattr(self, method)(arguments)

    # Scores.

    def encode(self, text):
        """Returns the token vectors that the test's encoder gives a text (one per word), and the words."""
        pieces = text.split()
        return [self.words.get(word, self.unknown_word) for word in pieces], pieces

    def tokens(self, given):
        """Returns a matrix, float64 [tokens, dim], of token vectors or of a text."""
        matrix = np.array(self.encode(given)[0] if isinstance(given, str) else given, np.float64)
        assert np.all(matrix * 4 == np.round(matrix * 4)) and np.all(abs(matrix) <= 8), f"{given}: rounding may differ"
        return matrix

    def similarities(self, query, document):
        return query @ document.T

    def rerank(self, arguments):
        """Returns the ranking of one query."""
        query = arguments["query"]
        words = self.encode(query)[1] if isinstance(query, str) else []
        cut = len(words) > self.max_query_words
        matrix = self.tokens(" ".join(words[: self.max_query_words]) if words else query)
        name = arguments.get("collection")
        ranking = {"missing": []}
        if name and self.collections[name].live:
            ranking["sequence"] = self.collections[name].sequence
        if words and arguments.get("alignments"):
            ranking["query_tokens"] = words[: self.max_query_words]
        if cut:
            ranking["query_truncated"] = True
        results = self.scored(arguments, matrix, ranking["missing"])
        results.sort(key=lambda one: (-one["score"], one["position"]))
        if "min_score" in arguments:
            results = [one for one in results if one["score"] >= arguments["min_score"]]
        ranking["documents"] = self.page(arguments, results)
        whole_and_live = "sequence" in ranking and "ids" not in arguments
        for one in ranking["documents"]:
            if whole_and_live:  # The place of a written document among the others depends on compactions.
                one["position"] = None
        return ranking

    search = rerank

    def rerank_many(self, arguments):
        """Returns one ranking per query. `ids`, `documents` and `weights` may have one list for each query."""
        rankings = []
        for i, query in enumerate(arguments["queries"]):
            own = {name: value for name, value in arguments.items() if name != "queries"}
            own["query"] = query
            if "weights" in own:
                own["weights"] = own["weights"][i]
            for name, depth in (("ids", 2), ("documents", 4)):
                if depth_of(own.get(name)) == depth:
                    own[name] = own[name][i]
            rankings.append(self.rerank({key: value for key, value in own.items() if value is not None}))
        return {"rankings": rankings}

    def candidates(self, arguments, missing):
        """Yields (position, document) of each candidate. Appends ids that the collection does not have to `missing`."""
        if "documents" in arguments:
            for position, given in enumerate(arguments["documents"]):
                yield position, self.inline_document(given)
            return
        collection = self.collections[arguments["collection"]]
        matching = set(collection.matching(arguments.get("filter")))
        ids = arguments["ids"] if "ids" in arguments else list(collection.documents)
        for position, id in enumerate(ids):
            if ids.index(id) != position:
                continue
            if id not in collection.documents:
                missing.append(id)
            elif id in matching:
                yield position, collection.documents[id]

    def inline_document(self, given):
        """Returns a document that was sent within the request. A text without words gets no vectors, and scores 0."""
        if not isinstance(given, str):
            return {"tokens": given}
        words = given.split()
        document = {"tokens": self.encode(" ".join(words[: self.max_document_words]))[0] or None}
        return {**document, "truncated": True} if len(words) > self.max_document_words else document

    def scored(self, arguments, query, missing):
        """Returns every candidate with its score, in the order of the candidates."""
        weights = np.array(arguments.get("weights", np.ones(len(query))), np.float64)
        results = []
        for position, document in self.candidates(arguments, missing):
            result = {"id": document.get("id"), "position": position, "truncated": document.get("truncated")}
            no_tokens = document["tokens"] is None
            tokens = np.zeros((1, query.shape[1])) if no_tokens else self.tokens(document["tokens"])
            products = self.similarities(query, tokens)
            score = float(np.dot(weights, products.max(axis=1)))
            assert score == float(np.float32(score)), f"the score {score!r} is not exact in FP32"
            result["score"] = score
            if arguments.get("normalize"):
                result["score"] = float(np.float32(score) / np.float32(len(query)))
            if arguments.get("alignments"):
                result["matches"] = products.argmax(axis=1).tolist()
                result["similarities"] = products.max(axis=1).tolist()
            payload = document.get("payload")
            if payload is not None and (arguments.get("payloads") or arguments.get("payload_fields")):
                fields = arguments.get("payload_fields") or list(payload)
                result["payload"] = {name: value for name, value in payload.items() if name in fields}
            if "group_by" in arguments:
                result["group"] = self.collections[arguments["collection"]].values(document)[arguments["group_by"]]
            results.append({name: value for name, value in result.items() if value is not None})
        return results

    def page(self, arguments, results):
        """Returns the ranks that the call asks for."""
        first, top_k = arguments.get("offset", 0), arguments.get("top_k", DEFAULT_TOP_K) or DEFAULT_TOP_K
        if "group_by" not in arguments:
            return results[first : first + top_k]
        groups = {}
        for one in results:
            if "group" in one:
                groups.setdefault(one["group"], []).append(one)
        chosen = list(groups.values())[first : first + top_k]
        return [one for group in chosen for one in group[: arguments.get("group_size", 1)]]

    def explain(self, arguments):
        """Returns every similarity of a query with one document."""
        query = self.tokens(arguments["query"])
        document = self.collections[arguments["collection"]].documents[arguments["id"]]
        products = self.similarities(query, self.tokens(document["tokens"]))
        weights = np.array(arguments.get("weights", np.ones(len(query))), np.float64)
        result = {"score": float(np.dot(weights, products.max(axis=1))), "similarities": products.tolist()}
        if isinstance(arguments["query"], str):
            result["query_tokens"] = self.encode(arguments["query"])[1]
        return result

    # Documents.

    def stored(self, collection, id, arguments, payloads):
        document = collection.documents[id]
        result = {"id": id, "num_tokens": len(self.tokens(document["tokens"]))}
        result["sequence"] = document.get("sequence", 0)
        result["version"] = document.get("version") or 0
        if payloads and document.get("payload") is not None:
            result["payload"] = document["payload"]
        if arguments.get("return_tokens"):
            result["tokens"] = self.tokens(document["tokens"]).tolist()
        return result

    def get(self, arguments):
        collection = self.collections[arguments["collection"]]
        found = [id for id in arguments["ids"] if id in collection.documents]
        missing = [id for id in arguments["ids"] if id not in collection.documents]
        documents = [self.stored(collection, id, arguments, payloads=True) for id in found]
        return {"documents": documents, "missing": missing}

    def scroll(self, arguments):
        collection = self.collections[arguments["collection"]]
        matching = set(collection.matching(arguments.get("filter")))
        ids = collection.sorted_ids()
        if "after" in arguments:
            after = arguments["after"]
            key = (lambda id: id.encode()) if isinstance(after, str) else (lambda id: id)
            ids = [id for id in ids if key(id) > key(after)]
        payloads = arguments.get("payloads", True)
        return {"documents": [self.stored(collection, id, arguments, payloads) for id in ids if id in matching]}

    def count(self, arguments):
        return {"count": len(self.collections[arguments["collection"]].matching(arguments.get("filter")))}

    def facets(self, arguments):
        collection = self.collections[arguments["collection"]]
        counts, matching = {}, collection.matching(arguments.get("filter"))
        for id in matching:
            value = collection.values(collection.documents[id])[arguments["field"]]
            for one in value if isinstance(value, list) else [] if value is None else [value]:
                counts[one] = counts.get(one, 0) + 1
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0].encode()))
        values = [list(item) for item in ordered[: arguments.get("limit", 10)]]
        return {"values": values, "num_values": len(counts), "num_documents": len(matching)}

    # Writes.

    def upsert(self, arguments):
        collection = self.collections[arguments["collection"]]
        results = []
        for given in arguments["documents"]:
            id, version = given["id"], given.get("version")
            if collection.keeps(id, version):
                results.append({"outcome": STALE, "sequence": 0})
                continue
            collection.sequence += 1
            tokens = given["tokens"] if "tokens" in given else self.encode(given["text"])[0]
            collection.documents.pop(id, None)
            collection.documents[id] = {**given, "tokens": tokens, "sequence": collection.sequence}
            collection.versions.pop(id, None)
            if version is not None:
                collection.versions[id] = version
            results.append({"outcome": APPLIED, "sequence": collection.sequence})
            if len(given.get("text", "").split()) > self.max_document_words:
                collection.documents[id]["tokens"] = tokens[: self.max_document_words]
                results[-1]["truncated"] = True
        return {"results": results, "sequence": collection.sequence}

    def delete(self, arguments):
        collection = self.collections[arguments["collection"]]
        if "filter" in arguments:
            return self.delete_matching(collection, arguments)
        results = []
        for id in arguments["ids"]:
            results.append(self.delete_one(collection, id, arguments.get("version")))
        return {"results": results, "sequence": collection.sequence}

    def delete_one(self, collection, id, version):
        if collection.keeps(id, version):
            return {"outcome": STALE, "sequence": 0}
        outcome = APPLIED if collection.documents.pop(id, None) is not None else NOT_FOUND
        if outcome == NOT_FOUND and version is None:
            return {"outcome": NOT_FOUND, "sequence": 0}
        collection.sequence += 1
        collection.versions.pop(id, None)
        if version is not None:
            collection.versions[id] = version
        return {"outcome": outcome, "sequence": collection.sequence}

    def delete_matching(self, collection, arguments):
        version = arguments.get("version")
        ids = [id for id in collection.matching(arguments["filter"]) if not collection.keeps(id, version)]
        for id in ids:
            self.delete_one(collection, id, version)
        return {"num_deleted": len(ids), "num_missing": 0, "num_stale": 0, "sequence": collection.sequence}


def depth_of(value):
    """Returns how deeply lists are nested around the first value. None counts as one list."""
    if value is None:
        return 1
    if not isinstance(value, list) or not value:
        return 0
    return 1 + max(depth_of(one) for one in value[:1])
