#!/usr/bin/env python3
"""Tests that maxsimctl prints a single line if TLS fails, without gRPC's log lines.

  ctl_tls_test.py FOLDER_OF_THE_PROGRAMS
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from program_fixture import Maxsimd

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()


def make_certificate(folder, name, host):
    """Makes a self-signed certificate for a host. Returns the files of the certificate and of its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={host}", "-addext", f"subjectAltName={host}", "-keyout", key, "-out", certificate],
        check=True, capture_output=True)  # fmt: skip
    return certificate, key


class CtlTlsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ctl-tls-")
        self.addCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        self.certificate, key = make_certificate(folder, "server", "IP:127.0.0.1")
        self.other, _ = make_certificate(folder, "other", "IP:127.0.0.1")
        self.server = Maxsimd(PROGRAMS, folder / "server", {}, tls__cert_file=self.certificate, tls__key_file=key)
        self.addCleanup(self.server.stop)

    def run_ctl(self, *arguments):
        command = [PROGRAMS / "maxsimctl", "--server", self.server.address, *arguments]
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)

    def test_a_certificate_that_is_trusted_is_taken(self):
        outcome = self.run_ctl("--tls", "--tls-ca", self.certificate, "info")
        self.assertEqual((outcome.returncode, outcome.stderr), (0, ""))

    def test_a_rejected_certificate_gives_one_line_that_names_the_server(self):
        for arguments, words in (
            (("--tls", "--tls-ca", self.other), "certificate"),
            (("--tls",), "certificate"),
            ((), self.server.address),
        ):
            with self.subTest(arguments=arguments):
                outcome = self.run_ctl(*arguments, "info")
                self.assertNotEqual(outcome.returncode, 0)
                self.assertEqual(outcome.stdout, "")
                lines = outcome.stderr.splitlines()
                self.assertTrue(lines[0].startswith("maxsimctl: "), outcome.stderr)
                self.assertIn(self.server.address, outcome.stderr)
                self.assertIn(words, outcome.stderr)
                self.assertNotRegex(outcome.stderr, r"\.cc:\d+|^[EI]\d{4}", "lines of gRPC")


if __name__ == "__main__":
    unittest.main(verbosity=2)
