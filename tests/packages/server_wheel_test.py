"""Tests the wheel maxsim-server in a virtual environment. Its programs must run with the libraries of the wheel.

python server_wheel_test.py BUILD_FOLDER          with auditwheel installed
"""

import email
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAMS = ("maxsimd", "maxsimctl", "maxsim-shard", "maxsim-loadtest")


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class ServerWheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-wheel-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        shown = output(sys.executable, "-B", ROOT / "scripts" / "packages" / "server_wheel.py", BUILD, cls.folder / "wheels")
        cls.wheel = pathlib.Path(shown.strip())
        venv = cls.folder / "venv"
        output(sys.executable, "-m", "venv", venv)
        output(venv / "bin" / "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check", cls.wheel)
        cls.programs = venv / "bin"
        cls.python = venv / "bin" / "python"

    def in_package(self, expression):
        return output(self.python, "-c", f"import maxsim_server; print({expression})").strip()

    def test_all_four_programs_build_serve_and_ask(self):
        self.assertIn("everything ran", output(HERE / "trial.sh", self.programs, ROOT / "demo"))

    def test_its_version_is_that_of_the_programs(self):
        version = output(self.programs / "maxsimd", "--version").split()[1]
        self.assertRegex(self.wheel.name, rf"^maxsim_server-{re.escape(version)}-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl$")
        with zipfile.ZipFile(self.wheel) as archive:
            metadata = email.message_from_bytes(archive.read(f"maxsim_server-{version}.dist-info/METADATA"))
        self.assertEqual(metadata["Version"], version)

    def test_auditwheel_finds_the_same_platform_tag(self):
        tag = self.wheel.stem.split("-")[-1]
        shown = " ".join(output(sys.executable, "-m", "auditwheel", "show", self.wheel).split())
        self.assertIn(f'is consistent with the following platform tag: "{tag}"', shown)

    def test_every_library_but_those_of_the_platform_is_in_the_package(self):
        package = self.in_package("maxsim_server.folder()")
        # LD_LIBRARY_PATH has other libraries of the same names, as in a conda environment. The programs must still use
        # the libraries of the wheel.
        libraries = f"lib/{os.uname().machine}-linux-gnu"
        environment = {**os.environ, "LD_LIBRARY_PATH": f"/usr/{libraries}:/{libraries}"}
        elsewhere = set()
        for name in PROGRAMS:
            shown = output("ldd", f"{package}/bin/{name}", env=environment)
            self.assertNotIn("not found", shown)
            found = re.findall(r"(\S+) => (/\S+)", shown)
            self.assertTrue(any(path.startswith(package) for _, path in found), name)
            elsewhere |= {library for library, path in found if not path.startswith(package)}
        # RocksDB links libpthread, although it is a part of libc.so.6 since glibc 2.34. So libpthread is allowed.
        platform = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libgcc_s.so.1", "libstdc++.so.6"}
        self.assertLessEqual(elsewhere, platform)

    def test_has_the_licence_of_every_library(self):
        licences = pathlib.Path(self.in_package("maxsim_server.licences()"))
        listed = (licences / "libraries.txt").read_text()
        libraries = list((pathlib.Path(self.in_package("maxsim_server.folder()")) / "lib").iterdir())
        self.assertGreater(len(libraries), 20)
        for library in libraries:
            package = re.search(rf"^(\S+) \S+:.* {re.escape(library.name)}( |$)", listed, re.MULTILINE)
            self.assertIsNotNone(package, library.name)
            self.assertGreater((licences / package[1] / "copyright").stat().st_size, 100)
        self.assertIn("Apache License", (licences / "LICENSE").read_text())

    def test_names_an_example_configuration_that_is_valid(self):
        path = output(self.python, "-m", "maxsim_server", "configuration").strip()
        self.assertIn("valid", output(self.programs / "maxsimd", "--config", path, "--check-config"))

    def test_a_program_inherits_no_signal_that_python_ignores(self):
        # /bin/sh replaces the program. It prints the signals that it ignores.
        launch = """
            import sys
            import maxsim_server.launch as launch
            launch.program = lambda name: "/bin/sh"
            sys.argv = ["", "-c", "sed -n 's/^SigIgn:\\\\s*//p' /proc/$$/status"]
            launch.launch("sh")"""
        script = "\n".join(line.strip() for line in launch.splitlines())
        ignored = int(output(self.python, "-c", script), 16)
        self.assertEqual(ignored & (1 << 12 | 1 << 24), 0, "SIGPIPE or SIGXFSZ is ignored")

    def test_authorities_are_named_unless_the_environment_names_them(self):
        expression = "launch.use_authorities_of_the_system(e) or e"
        for given in ({"SSL_CERT_FILE": "/mine"}, {"SSL_CERT_DIR": "/mine"}):
            script = f"import maxsim_server.launch as launch; e = {given}; print({expression})"
            self.assertEqual(output(self.python, "-c", script).strip(), str(given))
        script = (
            "import maxsim_server.launch as launch; launch.AUTHORITIES = ('/not/there', '/proc/self/maps'); e = {};"
            f"print({expression})"
        )
        self.assertEqual(output(self.python, "-c", script).strip(), "{'SSL_CERT_FILE': '/proc/self/maps'}")

    def test_files_are_in_a_fixed_order_and_have_one_time(self):
        with zipfile.ZipFile(self.wheel) as archive:
            entries = archive.infolist()
        self.assertEqual(len({entry.date_time for entry in entries}), 1)
        names = [entry.filename for entry in entries if not entry.filename.endswith("/RECORD")]
        self.assertEqual(names, sorted(names, key=lambda name: (".dist-info" in name, name)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
