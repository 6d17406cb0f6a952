"""The HTTP calls of call_records_test, which checks how calls are counted, logged and traced. Also has the tokens,
method names and limits for these calls."""

from tracing_fixture import DIM

SEARCH, ADMIN = "token-for-searching", "token-for-everything"
ROWS = [[1.0] * DIM]
TEXTS = ["first unknown", "second unknown"]
RERANK, EXPLAIN = "Reranker/Rerank", "Reranker/Explain"
UPSERT, DELETE, GET = "Documents/Upsert", "Documents/Delete", "Documents/Get"
COUNT, FACETS, SCROLL = "Documents/Count", "Documents/Facets", "Documents/Scroll"
CREATE, COMPACT, SNAPSHOT = "Admin/CreateCollection", "Admin/CompactCollection", "Admin/SnapshotCollection"
LAYOUT = "Admin/SetLayout"
DOCUMENTS = "/v1/collections/docs/documents"
MAX_BODY = 64 << 10

# Each row: name of the case; method and path; body (JSON, or text); token; the answer's status and code; the method's
# name in the metrics; the span's name (None if the call has no span).
HTTP_CALLS = [
    ("vectors", "POST /v1/rerank", {"query": ROWS, "documents": ["doc-1", "doc-2"]}, SEARCH, 200, "OK", "http", RERANK),
    ("texts as ids", "POST /v1/rerank", {"query": "why", "documents": TEXTS}, SEARCH, 404, "NOT_FOUND", "http", RERANK),
    ("texts as ids, v2", "POST /v2/rerank", {"query": "why", "documents": TEXTS}, SEARCH, 404, "NOT_FOUND", "http", RERANK),
    ("unknown id, TEI", "POST /rerank", {"query": ROWS, "texts": ["doc-1", "no"]}, SEARCH, 404, "NOT_FOUND", "http", RERANK),
    ("unknown model", "POST /v1/rerank", {"model": "no", "query": ROWS, "documents": ["doc-1"]}, SEARCH, 404, "NOT_FOUND", "http", RERANK),
    ("no JSON", "POST /v1/rerank", "nonsense", SEARCH, 400, "INVALID_ARGUMENT", "http", RERANK),
    ("wrong member", "POST /text/v1/rerank", {"query": ROWS, "documents": []}, SEARCH, 400, "INVALID_ARGUMENT", "http", RERANK),
    ("wrong width", "POST /v1/rerank", {"query": [[1.0]], "documents": ["doc-1"]}, SEARCH, 400, "INVALID_ARGUMENT", "http", RERANK),
    ("no token", "POST /v1/rerank", {"query": ROWS, "documents": ["doc-1"]}, "", 401, "UNAUTHENTICATED", "http", None),
    ("too large", "POST /v1/rerank", "x" * (MAX_BODY + 1), SEARCH, 413, "INVALID_ARGUMENT", "http", None),
    ("explain", "POST /v1/explain", {"query": ROWS, "id": "doc-1"}, SEARCH, 200, "OK", "explain", EXPLAIN),
    ("explain unknown", "POST /v1/explain", {"query": ROWS, "id": "no"}, SEARCH, 404, "NOT_FOUND", "explain", EXPLAIN),
    ("explain no JSON", "POST /v1/explain", "nonsense", SEARCH, 400, "INVALID_ARGUMENT", "explain", EXPLAIN),
    ("explain no token", "POST /v1/explain", {"query": ROWS, "id": "doc-1"}, "", 401, "UNAUTHENTICATED", "explain", None),
    ("read one", f"GET {DOCUMENTS}/doc-1", "", SEARCH, 200, "OK", "http_get", GET),
    ("read one unknown", f"GET {DOCUMENTS}/no", "", SEARCH, 404, "NOT_FOUND", "http_get", GET),
    ("read", f"POST {DOCUMENTS}/get", {"ids": ["doc-1", "no"]}, SEARCH, 200, "OK", "http_get", GET),
    ("read no JSON", f"POST {DOCUMENTS}/get", "nonsense", SEARCH, 400, "INVALID_ARGUMENT", "http_get", GET),
    ("read no collection", "GET /v1/collections/no/documents/a", "", SEARCH, 404, "NOT_FOUND", "http_get", GET),
    ("write", f"PUT {DOCUMENTS}", {"documents": [{"id": "new", "tokens": ROWS}]}, ADMIN, 200, "OK", "http_upsert", UPSERT),
    ("write no JSON", f"PUT {DOCUMENTS}", "nonsense", ADMIN, 400, "INVALID_ARGUMENT", "http_upsert", UPSERT),
    ("write wrong", f"PUT {DOCUMENTS}", {"documents": [{"id": "new", "tokens": [[1.0]]}]}, ADMIN, 400, "INVALID_ARGUMENT", "http_upsert", UPSERT),
    ("write forbidden", f"PUT {DOCUMENTS}", {"documents": []}, SEARCH, 403, "PERMISSION_DENIED", "http_upsert", None),
    ("delete", f"DELETE {DOCUMENTS}", {"ids": ["new"]}, ADMIN, 200, "OK", "http_delete", DELETE),
    ("delete no such field", f"DELETE {DOCUMENTS}", {"filter": "year < 2000"}, ADMIN, 400, "INVALID_ARGUMENT", "http_delete", DELETE),
    ("delete no JSON", f"DELETE {DOCUMENTS}", "nonsense", ADMIN, 400, "INVALID_ARGUMENT", "http_delete", DELETE),
    ("scroll", f"POST {DOCUMENTS}/scroll", {"limit": 1}, SEARCH, 200, "OK", "http_scroll", SCROLL),
    ("scroll no collection", "POST /v1/collections/no/documents/scroll", {}, SEARCH, 404, "NOT_FOUND", "http_scroll", SCROLL),
    ("scroll no JSON", f"POST {DOCUMENTS}/scroll", "nonsense", SEARCH, 400, "INVALID_ARGUMENT", "http_scroll", SCROLL),
    ("scroll no token", f"POST {DOCUMENTS}/scroll", {}, "", 401, "UNAUTHENTICATED", "http_scroll", None),
    ("count", "POST /v1/count", {"collection": "docs"}, SEARCH, 200, "OK", "http_count", COUNT),
    ("count no collection", "POST /v1/count", {"collection": "no"}, SEARCH, 404, "NOT_FOUND", "http_count", COUNT),
    ("count no JSON", "POST /v1/count", "nonsense", SEARCH, 400, "INVALID_ARGUMENT", "http_count", COUNT),
    ("facets no field", "POST /v1/facets", {"collection": "docs", "field": "f"}, SEARCH, 400, "INVALID_ARGUMENT", "http_facets", FACETS),
    ("facets no token", "POST /v1/facets", {"collection": "docs", "field": "f"}, "", 401, "UNAUTHENTICATED", "http_facets", None),
    ("method of a count", "GET /v1/count", "", SEARCH, 405, "UNIMPLEMENTED", "http_other", None),
    ("collections", "GET /v1/collections", "", SEARCH, 200, "OK", "http_info", None),
    ("collections no token", "GET /v1/collections", "", "", 401, "UNAUTHENTICATED", "http_info", None),
    ("collection", "GET /v1/collections/docs", "", SEARCH, 200, "OK", "http_info", None),
    ("collection unknown", "GET /v1/collections/no", "", SEARCH, 404, "NOT_FOUND", "http_info", None),
    ("collection no token", "GET /v1/collections/docs", "", "", 401, "UNAUTHENTICATED", "http_info", None),
    ("create taken", "PUT /v1/collections/docs", {"dim": DIM}, ADMIN, 409, "ALREADY_EXISTS", "http_create", CREATE),
    ("create forbidden", "PUT /v1/collections/more", {"dim": DIM}, SEARCH, 403, "PERMISSION_DENIED", "http_create", None),
    ("create no JSON", "PUT /v1/collections/more", "nonsense", ADMIN, 400, "INVALID_ARGUMENT", "http_create", CREATE),
    ("compact unknown", "POST /v1/collections/no/compact", "", ADMIN, 404, "NOT_FOUND", "http_compact", COMPACT),
    ("compact forbidden", "POST /v1/collections/docs/compact", {}, SEARCH, 403, "PERMISSION_DENIED", "http_compact", None),
    ("snapshot no path", "POST /v1/collections/docs/snapshot", {}, ADMIN, 400, "INVALID_ARGUMENT", "http_snapshot", SNAPSHOT),
    ("layout no owners", "PUT /v1/collections/docs/layout", {"expected_revision": 0, "owners": []}, ADMIN, 400, "INVALID_ARGUMENT", "http_layout", LAYOUT),
    ("layout forbidden", "PUT /v1/collections/docs/layout", {}, SEARCH, 403, "PERMISSION_DENIED", "http_layout", None),
    ("method of a collection", "PATCH /v1/collections/docs", {}, ADMIN, 405, "UNIMPLEMENTED", "http_other", None),
    ("stats", "GET /v1/stats", "", SEARCH, 200, "OK", "http_info", None),
    ("stats no token", "HEAD /v1/stats", "", "", 401, "UNAUTHENTICATED", "http_info", None),
    ("models", "GET /v1/models", "", SEARCH, 200, "OK", "http_info", None),
    ("model", "GET /v1/models/docs", "", SEARCH, 200, "OK", "http_info", None),
    ("model unknown", "GET /v1/models/no", "", SEARCH, 404, "NOT_FOUND", "http_info", None),
    ("no such path", "GET /nowhere", "", SEARCH, 404, "NOT_FOUND", "http_other", None),
    ("no such path, POST", "POST /v1/chat/completions", {}, SEARCH, 404, "NOT_FOUND", "http_other", None),
    ("method of a call", "GET /v1/rerank", "", SEARCH, 405, "UNIMPLEMENTED", "http_other", None),
    ("method of a page", "POST /v1/stats", {}, SEARCH, 405, "UNIMPLEMENTED", "http_other", None),
    ("method of documents", f"PATCH {DOCUMENTS}", {}, ADMIN, 405, "UNIMPLEMENTED", "http_other", None),
]  # fmt: skip
