"""Tests the command line of maxsim-mcp: how it finds its server, and its errors if the server cannot be reached.

python reaching_test.py FOLDER_OF_THE_PROGRAMS
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from mcp_fixture import PROGRAMS, SessionTest

from maxsim_mcp.cli import make_parser
from programs import ROOT, Maxsimd, run
from python_package import PYTHON_CLIENT

PAGE = ROOT / "docs" / "use" / "mcp.md"


class ReachingTest(SessionTest):
    """The server has no encoder. It requires a token, and speaks TLS."""

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="maxsim-mcp-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.token, cls.certificate = cls.folder / "token", cls.folder / "server.pem"
        cls.token.write_text("secret\n")
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=search.example"]
        command += ["-addext", "subjectAltName=DNS:search.example", "-keyout", cls.folder / "server.key"]
        run(*command, "-out", cls.certificate)
        files = {"auth.tokens_file": cls.token, "tls.cert_file": cls.certificate, "tls.key_file": cls.folder / "server.key"}
        cls.server = Maxsimd(PROGRAMS, **files)
        cls.addClassCleanup(cls.server.stop)
        cls.tls = ("--tls", "--tls-ca", cls.certificate, "--tls-server-name", "search.example")

    def test_options_and_environment_give_token_and_certificate(self):
        text, structured = self.found("list", "--token-file", self.token, *self.tls)
        self.assertEqual([one["name"] for one in structured["collections"]], ["demo"])
        self.assertFalse(structured["takes_text"])
        self.assertIn("The server has no encoder", text)
        environment = {"MAXSIM_TOKEN": "secret", "MAXSIM_CA_FILE": str(self.certificate)}
        (result,) = self.results([("list", {})], "--tls-server-name", "search.example", environment=environment)
        self.assertEqual(self.succeeded(result), (text, structured))

    def test_a_missing_token_is_an_error_of_the_tool(self):
        self.assertEqual(self.refused("list", *self.tls)["code"], "UNAUTHENTICATED")

    def test_a_search_without_an_encoder_says_what_is_missing(self):
        error = self.refused("search", "--token-file", self.token, *self.tls, query="lava", collection="demo")
        self.assertEqual(error["code"], "FAILED_PRECONDITION")
        self.assertIn("encoder", error["message"])

    def test_a_server_that_is_not_there_is_an_error_of_the_tool(self):
        error = self.refused("list", "--timeout", 1, server="127.0.0.1:1")
        self.assertEqual(error["code"], "UNAVAILABLE")
        self.assertIn("127.0.0.1:1", error["message"])

    def program(self, *options):
        environment = dict(os.environ, PYTHONPATH=str(PYTHON_CLIENT))
        command = [sys.executable, "-m", "maxsim_mcp", *map(str, options)]
        return subprocess.run(command, env=environment, input="", capture_output=True, text=True, timeout=120)

    def test_wrong_options_end_the_program_with_one_line(self):
        for options, said in (
            (["--token-file", self.folder / "none"], "No such file or directory"),
            (["--server", "http://far"], "'http://far' is not HOST:PORT"),
            (["--tls-cert", self.certificate], "cert_file and key_file must be given together"),
        ):
            done = self.program(*options)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, rf"^maxsim-mcp: .*{re.escape(said)}.*\n$")
        for options in (["--timeout", "0"], ["--timeout", "nan"], ["--payload-fields", "a,,b"]):
            done = self.program(*options)
            self.assertEqual(done.returncode, 2)
            self.assertIn(options[0], done.stderr)

    def test_the_end_of_the_input_ends_the_program(self):
        self.assertEqual(self.program().returncode, 0)

    def test_the_page_lists_each_option(self):
        options = {name for action in make_parser()._actions for name in action.option_strings if name.startswith("--")}
        listed = set(re.findall(r"^\| `(--[a-z-]+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
        self.assertEqual(listed, options - {"--help", "--version"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
