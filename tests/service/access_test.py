"""Tests what maxsimd shows to which client. Web pages of other sites must get nothing from a server without tokens, and
only administrators may see the names of folders on the server's machine.

python access_test.py FOLDER_OF_THE_PROGRAMS
"""

import http.client
import json
import pathlib
import sys
import tempfile
import time
import unittest

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from program_fixture import Maxsimd  # noqa: E402
from tracing_fixture import DIM, PATIENCE_S, wire_messages  # noqa: E402

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
SEARCH, ADMIN = "token-for-searching", "token-for-everything"
# The requests that need a token.
GUARDED = [
    ("POST", "/v1/rerank"),
    ("POST", "/text/v2/rerank"),
    ("POST", "/v1/explain"),
    ("PUT", "/v1/collections/docs/documents"),
    ("DELETE", "/v1/collections/docs/documents"),
    ("GET", "/v1/collections/docs"),
    ("PUT", "/v1/collections/docs"),
    ("POST", "/v1/collections/docs/compact"),
    ("POST", "/v1/collections/docs/snapshot"),
    ("PUT", "/v1/collections/docs/layout"),
    ("POST", "/v1/collections/docs/documents/get"),
    ("GET", "/v1/collections/docs/documents/a"),
    ("POST", "/v1/collections/docs/documents/scroll"),
    ("POST", "/v1/count"),
    ("POST", "/v1/facets"),
    ("GET", "/v1/collections"),
    ("GET", "/v1/stats"),
    ("GET", "/v1/models"),
    ("GET", "/text/info"),
    ("GET", "/console/questions.json"),
]
OPEN = [("GET", path) for path in ("/livez", "/readyz", "/metrics", "/openapi.json", "/", "/console/console.css")]


def call(server, method, path, body="{}", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data


class BrowsersTest(unittest.TestCase):
    """Tests a server without tokens."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-access-")
        cls.addClassCleanup(temporary.cleanup)
        cls.server = Maxsimd(
            PROGRAMS, pathlib.Path(temporary.name) / "server", {}, http__allowed_hosts="search.example.org"
        )
        cls.addClassCleanup(cls.server.stop)

    def expect_refusal(self, header, method, path, **headers):
        status, data = call(self.server, method, path, **headers)
        self.assertEqual(status, 403, data)
        self.assertEqual(json.loads(data)["error"]["code"], "PERMISSION_DENIED")
        self.assertTrue(json.loads(data)["message"].startswith(f"{header}: "), data)

    def test_a_page_whose_name_changes_its_address_gets_nothing(self):
        for method, path in GUARDED:
            with self.subTest(path=path, method=method):
                self.expect_refusal("Host", method, path, Host=f"rebound.example:{self.server.port}")

    def test_a_page_of_another_site_changes_nothing(self):
        for method, path in GUARDED:
            if method == "GET":
                continue
            for origin in ("https://other.example", "null", "http://localhost:3000"):
                with self.subTest(path=path, method=method, origin=origin):
                    self.expect_refusal("Origin", method, path, Origin=origin)

    def test_programs_and_the_servers_own_page_are_answered(self):
        port = self.server.port
        for headers in (
            {},
            {"Host": "maxsimd:7071"},
            {"Host": "maxsimd.search.svc.cluster.local"},
            {"Host": "search.example.org"},
            {"Origin": f"http://127.0.0.1:{port}"},
            {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"},
            {"Host": "maxsimd:7071", "Origin": "https://search.example.org"},
        ):
            for method, path in GUARDED:
                with self.subTest(path=path, method=method, headers=headers):
                    status, data = call(self.server, method, path, **headers)
                    self.assertNotEqual(status, 403, data)

    def test_probes_and_what_holds_no_data_are_for_everybody(self):
        for method, path in OPEN:
            for host in ("10.0.0.1:7071", "rebound.example"):
                with self.subTest(path=path, host=host):
                    self.assertEqual(call(self.server, method, path, Host=host)[0], 200)


class TokensTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-access-")
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        cls.message = staticmethod(wire_messages(folder))
        cls.root = folder / "secret-place"
        cls.root.mkdir()
        for name, token in (("search", SEARCH), ("admin", ADMIN)):
            (folder / name).write_text(token + "\n")
        cls.server = Maxsimd(
            PROGRAMS,
            folder / "server",
            {},
            auth__tokens_file=folder / "search",
            auth__admin_tokens_file=folder / "admin",
            store__allowed_roots=cls.root,
        )
        cls.addClassCleanup(cls.server.stop)
        request = cls.message("CreateCollectionRequest")(name="docs", dim=DIM)
        cls.call("Admin/CreateCollection", request, ADMIN)
        # A failed reload leaves its error in the collection's state.
        (cls.root / "docs" / "collection.json").write_text("{")
        try:
            cls.call("Admin/ReloadCollection", cls.message("ReloadCollectionRequest")(name="docs"), ADMIN)
        except grpc.RpcError:
            pass

    @classmethod
    def call(cls, method, request, token):
        with grpc.insecure_channel(cls.server.address) as channel:
            stub = channel.unary_unary(f"/maxsim.v1.{method}", lambda m: m.SerializeToString())
            return stub(request, metadata=[("authorization", f"Bearer {token}")], timeout=PATIENCE_S)

    def count(self, code, method):
        """Returns maxsim_requests_total of the code and method."""
        series = f'maxsim_requests_total{{code="{code}",method="{method}"}} '
        lines = call(self.server, "GET", "/metrics")[1].decode().splitlines()
        return sum(float(line.removeprefix(series)) for line in lines if line.startswith(series))

    def test_requests_for_information_are_counted_also_where_they_are_refused(self):
        paths = [path for method, path in GUARDED if method == "GET" and not path.endswith("/documents/a")]
        for code, headers, status in (
            ("UNAUTHENTICATED", {}, 401),
            ("OK", {"Authorization": f"Bearer {SEARCH}"}, 200),
        ):
            before = self.count(code, "http_info")
            for path in paths:
                self.assertEqual(call(self.server, "GET", path, **headers)[0], status, path)
            # The server renders the text of the metrics again only after some time.
            limit = time.monotonic() + 60
            while self.count(code, "http_info") < before + len(paths):
                self.assertLess(time.monotonic(), limit, f"{before} and {len(paths)} more are not counted as {code}")
                time.sleep(0.1)

    def get_collection(self, token):
        data = self.call("Reranker/GetInfo", self.message("GetInfoRequest")(), token)
        (collection,) = self.message("GetInfoResponse").FromString(data).collections
        return collection

    def test_folders_are_for_administrators(self):
        whole = self.get_collection(ADMIN)
        self.assertEqual(whole.path, str(self.root / "docs"))
        self.assertIn("secret-place", whole.error)
        shown = self.get_collection(SEARCH)
        self.assertEqual(shown.path, "")
        self.assertIn("collection.json", shown.error)
        self.assertNotIn("secret-place", str(shown))

    def test_http_shows_no_folders(self):
        for token in (SEARCH, ADMIN):
            for path in ("/v1/collections", "/v1/collections/docs", "/readyz", "/metrics"):
                data = call(self.server, "GET", path, Authorization=f"Bearer {token}")[1]
                has_folder = b"secret-place" in data
                self.assertEqual(has_folder, token == ADMIN and path.startswith("/v1/collections"), (path, token, data))

    def test_clients_of_xinference_learn_that_they_need_a_token(self):
        for path in ("/v1/cluster/auth", "/text/v1/cluster/auth"):
            self.assertEqual(call(self.server, "GET", path), (200, b'{"auth":true}\n'))

    def test_a_token_is_all_that_a_page_needs(self):
        status, _ = call(
            self.server,
            "GET",
            "/v1/collections",
            Host="public.example",
            Origin="https://public.example",
            Authorization=f"Bearer {SEARCH}",
        )
        self.assertEqual(status, 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
