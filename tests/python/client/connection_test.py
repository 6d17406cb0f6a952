"""Tests how clients find and reach their server: addresses, tokens, environment variables, TLS.

python connection_test.py FOLDER_OF_THE_PROGRAMS
"""

import os
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

import numpy as np

from client_fixture import RealServerTest, main, run_async

from maxsim import AsyncClient, Client, Request, Retry, connection, errors

NOTHING = {
    "token": None,
    "token_file": None,
    "tls": None,
    "ca_file": None,
    "cert_file": None,
    "key_file": None,
    "server_name": None,
    "credentials": None,
    "client_id": None,
    "client_key": "x-client-id",
    "options": None,
}


def resolve(target=None, environment=None, **arguments):
    with mock.patch.dict(os.environ, environment or {}):
        return connection.resolve(target, **{**NOTHING, **arguments})


class ResolveTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_a_port_is_added_where_there_is_none(self):
        for target, wanted in (
            ("search-1", "search-1:7070"),
            ("search-1:80", "search-1:80"),
            ("[::1]", "[::1]:7070"),
            ("[::1]:80", "[::1]:80"),
            ("dns:///search", "dns:///search"),
            ("unix:/run/maxsimd.sock", "unix:/run/maxsimd.sock"),
            ("ipv4:10.0.0.1:7070,10.0.0.2:7070", "ipv4:10.0.0.1:7070,10.0.0.2:7070"),
        ):
            self.assertEqual(resolve(target).target, wanted)
        for target in ("", ":80", "host:", "http://host"):
            with self.subTest(target), self.assertRaisesRegex(ValueError, "is not HOST:PORT"):
                resolve(target)

    def test_the_environment_stands_in_for_arguments(self):
        self.assertEqual(resolve().target, "localhost:7070")
        variables = {
            "MAXSIM_SERVER": "far",
            "MAXSIM_TOKEN_FILE": str(self.file("t", "# mine\n\n  from-file \nother\n")),
            "MAXSIM_CLIENT_ID": "shop",
        }
        made = resolve(environment=variables)
        self.assertEqual(made.target, "far:7070")
        self.assertEqual(made.metadata, [("authorization", "Bearer from-file"), ("x-client-id", "shop")])
        made = resolve(environment={**variables, "MAXSIM_TOKEN": "plain"})
        self.assertEqual(made.metadata[0], ("authorization", "Bearer plain"))
        made = resolve("near", environment=variables, token="mine", client_id="")
        self.assertEqual((made.target, made.metadata), ("near:7070", [("authorization", "Bearer mine")]))

    def test_files_of_tokens_are_read_as_maxsimctl_reads_them(self):
        self.assertEqual(connection.read_token(self.file("a", "#x\n\n one\ntwo\n")), "one")
        self.assertEqual(connection.read_token(self.file("t", 'one {"tenant": "a"}\n')), "one")
        for text, message in (("", "holds no token"), ("# only\n", "holds no token"), ("a b\n", "holds a space")):
            with self.subTest(text), self.assertRaisesRegex(ValueError, message):
                connection.read_token(self.file("b", text))
        with self.assertRaises(OSError):
            resolve(token_file=self.folder / "nowhere")

    def test_contradictions_are_named(self):
        a_file = self.file("f", "x")
        for arguments, message in (
            ({"token": "a", "token_file": a_file}, "token or token_file, not both"),
            ({"tls": False, "ca_file": a_file}, "tls is False"),
            ({"cert_file": a_file}, "cert_file and key_file must be given together"),
            ({"key_file": a_file}, "cert_file and key_file must be given together"),
            ({"credentials": object(), "tls": True}, "credentials, or tls and its files"),
        ):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                resolve(**arguments)

    def test_every_wrong_argument_of_a_client_is_named(self):
        above = "a finite number of seconds above 0"
        for arguments, message in (
            ({"target": 7070}, "target is 7070; must be a string"),
            ({"timeout": 0}, f"timeout is 0; must be {above}"),
            ({"timeout": -1.5}, f"timeout is -1.5; must be {above}"),
            ({"timeout": "x"}, f"timeout is 'x'; must be {above}"),
            ({"timeout": None}, f"timeout is None; must be {above}"),
            ({"timeout": float("inf")}, f"timeout is inf; must be {above}"),
            ({"admin_timeout": 0}, f"admin_timeout is 0; must be {above}"),
            ({"retry": 3}, "retry is 3; must be a maxsim.Retry"),
            ({"retry": None}, "retry is None; must be a maxsim.Retry"),
            ({"token": "secret\n"}, "the token holds a space, the end of a line or a character beyond ASCII"),
            ({"token_file": 5}, "token_file is 5; must be the path of a file"),
            ({"client_id": 5}, "client_id is 5; must be a string"),
            ({"client_id": "café"}, "client_id is 'café'; must be printable ASCII characters"),
            ({"client_key": "X-Client"}, "client_key is 'X-Client'; must be of a-z"),
            ({"client_key": None}, "client_key is None; must be of a-z"),
            ({"tls": "yes"}, "tls is 'yes'; must be True or False"),
            ({"ca_file": 5}, "ca_file is 5; must be the path of a file"),
            ({"cert_file": b"a", "key_file": "b"}, "cert_file is b'a'; must be the path of a file"),
            ({"key_file": True}, "key_file is True; must be the path of a file"),
            ({"server_name": 5}, "server_name is 5; must be a string"),
            ({"credentials": "mine"}, "credentials is 'mine'; must be a grpc.ChannelCredentials"),
            ({"options": [("grpc.x", 1)]}, "options is [('grpc.x', 1)]; must be a mapping"),
            ({"options": {"grpc.x": 1.5}}, "options['grpc.x'] is 1.5; names are strings, values are integers"),
        ):
            for kind in (Client, AsyncClient):
                with self.subTest(message), self.assertRaises(ValueError) as caught:
                    kind(**arguments)
                self.assertIn(message, str(caught.exception))

    def test_a_token_is_not_printed(self):
        for token in (5551234, b"5551234", "5551234 "):
            with self.assertRaisesRegex(ValueError, "token") as caught:
                resolve(token=token)
            self.assertNotIn("5551234", str(caught.exception))

    def test_nothing_is_encrypted_unless_it_is_wanted(self):
        ca_file = str(self.file("ca", "x"))
        self.assertIsNone(resolve().credentials)
        self.assertIsNotNone(resolve(tls=True).credentials)
        self.assertIsNotNone(resolve(ca_file=ca_file).credentials)
        self.assertIsNotNone(resolve(environment={"MAXSIM_CA_FILE": ca_file}).credentials)
        self.assertIsNone(resolve(environment={"MAXSIM_CA_FILE": ca_file}, tls=False).credentials)

    def test_options_of_the_caller_win(self):
        options = dict(resolve(options={"grpc.lb_policy_name": "pick_first", "grpc.x": 1}).options)
        self.assertEqual((options["grpc.lb_policy_name"], options["grpc.x"]), ("pick_first", 1))
        self.assertIn("grpc.max_receive_message_length", options)


def certificate(folder, name, subject, *signed_by):
    """Makes a certificate NAME.pem and its key NAME.key."""
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={subject}"]
    command += ["-addext", f"subjectAltName=DNS:{subject}", "-keyout", folder / f"{name}.key", "-out"]
    command += [folder / f"{name}.pem", *signed_by]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


class TlsTest(RealServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.certificates = cls.folder / "certificates"
        cls.certificates.mkdir()
        certificate(cls.certificates, "server", "search.example")
        certificate(cls.certificates, "client", "shop.example")

    def secured(self, **flags):
        files = {"tls.cert_file": "server.pem", "tls.key_file": "server.key", **flags}
        return self.secured_server(**{key: self.certificates / name for key, name in files.items()}).address

    def names(self, address, **options):
        """Returns the names of the server's collections. Checks that Client and AsyncClient return the same names."""

        async def ask():
            async with AsyncClient(address, timeout=5, **options) as client:
                return [c.name for c in (await client.info()).collections]

        with Client(address, timeout=5, **options) as client:
            names = [c.name for c in client.info().collections]
        self.assertEqual(run_async(ask()), names)
        return names

    def test_the_servers_certificate_is_checked(self):
        address = self.secured()
        ours = {"ca_file": self.certificates / "server.pem", "server_name": "search.example", "token": "secret"}
        self.assertEqual(self.names(address, **ours), ["text"])
        fits = "does its certificate fit ca_file and server_name"
        for wrong, advice in (
            ({**ours, "server_name": None}, fits),  # the certificate has no address
            ({**ours, "ca_file": self.certificates / "client.pem"}, fits),
            ({"token": "secret"}, "does it need TLS?"),
        ):
            with self.subTest(wrong):
                self.expect_advice(address, advice, **wrong)

    def expect_advice(self, address, advice, **options):
        """Checks that Client and AsyncClient cannot reach the server, and that both errors contain the text
        `advice`."""

        async def ask():
            async with AsyncClient(address, timeout=5, retry=Retry(max_attempts=1), **options) as client:
                await client.info()

        def ask_stream(client):
            return list(client.rerank_stream([Request(None, "a", documents=["b"])]))

        with Client(address, timeout=5, retry=Retry(max_attempts=1), **options) as client:
            for call in (client.info, lambda: ask_stream(client), lambda: run_async(ask())):
                with self.assertRaises(errors.Unavailable) as caught:
                    call()
                self.assertIn(f"cannot reach maxsimd at {address} ({advice}", caught.exception.message)

    def test_what_is_no_server_of_this_kind_is_said(self):
        ca_file = self.certificates / "server.pem"
        self.expect_advice(self.server.address, "does ", ca_file=ca_file)
        self.expect_advice(f"127.0.0.1:{self.server.port}", "is this its HTTP port?")
        self.expect_advice("127.0.0.1:1", "start one with 'maxsimd --collection NAME=PATH'")
        self.expect_advice("no-such-host.invalid:7070", "is the name right?")

    def test_a_client_may_have_to_show_its_own(self):
        address = self.secured(**{"tls.client_ca_file": "client.pem"})
        ours = {"ca_file": self.certificates / "server.pem", "server_name": "search.example", "token": "secret"}
        own = {"cert_file": self.certificates / "client.pem", "key_file": self.certificates / "client.key"}
        self.assertEqual(self.names(address, **ours, **own), ["text"])
        self.expect_advice(address, "does the port speak TLS, and does it need a client's certificate", **ours)

    def test_the_environment_alone_reaches_a_secured_server(self):
        address = self.secured(**{"tls.client_ca_file": "client.pem"})
        token = self.certificates / "token"
        token.write_text("secret\n")
        variables = {
            "MAXSIM_SERVER": address,
            "MAXSIM_TOKEN_FILE": str(token),
            "MAXSIM_CA_FILE": str(self.certificates / "server.pem"),
            "MAXSIM_CLIENT_CERT_FILE": str(self.certificates / "client.pem"),
            "MAXSIM_CLIENT_KEY_FILE": str(self.certificates / "client.key"),
        }
        with mock.patch.dict(os.environ, variables), Client(server_name="search.example") as client:
            self.assertEqual(client.rerank("text", np.ones((1, 48), np.float32), top_k=2).generation, 1)


if __name__ == "__main__":
    main()
