"""How clients find and reach their server: addresses, tokens, the environment, TLS.

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

from maxsim import AsyncClient, Client, connection, errors

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
            ({"cert_file": a_file}, "cert_file and key_file are given together"),
            ({"key_file": a_file}, "cert_file and key_file are given together"),
            ({"credentials": object(), "tls": True}, "credentials, or tls and its files"),
        ):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                resolve(**arguments)

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
    """Makes NAME.pem and NAME.key."""
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
        """What both clients say that the server serves; they must agree."""

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
        for wrong in (
            {**ours, "server_name": None},  # the certificate has no address
            {**ours, "ca_file": self.certificates / "client.pem"},
            {"token": "secret"},  # plain text
        ):
            with self.subTest(wrong), self.assertRaises(errors.Unavailable):
                self.names(address, **wrong)

    def test_a_client_may_have_to_show_its_own(self):
        address = self.secured(**{"tls.client_ca_file": "client.pem"})
        ours = {"ca_file": self.certificates / "server.pem", "server_name": "search.example", "token": "secret"}
        own = {"cert_file": self.certificates / "client.pem", "key_file": self.certificates / "client.key"}
        self.assertEqual(self.names(address, **ours, **own), ["text"])
        with self.assertRaises(errors.Unavailable):
            self.names(address, **ours)

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
