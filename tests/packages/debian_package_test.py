"""Tests the Debian package maxsim-server without installing it: its files, its dependencies, and its programs, which
run from the folder in which the package is unpacked.

python debian_package_test.py BUILD_FOLDER          exits with 77 if the tools for Debian packages are missing
"""

import gzip
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
PROGRAMS = {"maxsimd": 8, "maxsimctl": 1, "maxsim-shard": 1, "maxsim-loadtest": 1}
UNIT = "usr/lib/systemd/system/maxsimd.service"


def output(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


class DebianPackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-deb-")
        cls.addClassCleanup(temporary.cleanup)
        folder = pathlib.Path(temporary.name)
        made = output(ROOT / "scripts" / "packages" / "make-deb.sh", BUILD, folder)
        cls.package = pathlib.Path(made.strip())
        cls.root = folder / "root"
        output("dpkg-deb", "-x", cls.package, cls.root)
        cls.control = folder / "control"
        output("dpkg-deb", "-e", cls.package, cls.control)

    def field(self, name):
        return output("dpkg-deb", "-f", self.package, name).strip()

    def test_all_four_programs_build_serve_and_ask(self):
        demo = self.root / "usr/share/doc/maxsim-server/examples/demo"
        self.assertIn("everything ran", output(HERE / "trial.sh", self.root / "usr/bin", demo))

    def test_its_version_is_that_of_the_programs(self):
        version = output(self.root / "usr/bin/maxsimd", "--version").split()[1]
        self.assertRegex(self.field("Version"), rf"^{re.escape(version)}-1~[a-z]+[0-9.]+$")
        machine = output("dpkg", "--print-architecture").strip()
        self.assertEqual(self.package.name, f"maxsim-server_{self.field('Version')}_{machine}.deb")

    def test_depends_on_the_package_of_every_library(self):
        depends = {part.split()[0] for part in self.field("Depends").split(",")}
        # The programs must have no RPATH or RUNPATH, so that they use the libraries of the packages that they depend
        # on.
        for name in PROGRAMS:
            dynamic = output("readelf", "-d", self.root / "usr/bin" / name)
            self.assertNotRegex(dynamic, r"\((RPATH|RUNPATH)\)")
            needed = re.findall(r"\(NEEDED\).*\[(lib.*)\]", dynamic)
            paths = dict(re.findall(r"(\S+) => (/\S+)", output("ldd", self.root / "usr/bin" / name)))
            for library in needed:
                self.assertTrue(self.owners(paths[library]) & depends, library)
        # The package must not depend on CUDA. The CUDA runtime is linked into the programs, and maxsimd loads the
        # driver when it starts.
        self.assertNotRegex(self.field("Depends"), "(?i)cuda|nvidia")

    def owners(self, path):
        """Returns the names of the package that owns a file: its own name, and the names that it provides."""
        resolved = str(pathlib.Path(path).resolve())
        for name in (resolved, resolved.removeprefix("/usr"), path):
            found = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True)
            if found.returncode == 0:
                owner = found.stdout.split(":")[0]
                provided = output("dpkg-query", "-W", "-f", "${Provides}\n", owner)
                return {owner, *re.findall(r"[a-z0-9][a-z0-9+.-]+", re.sub(r"\(.*?\)", "", provided))}
        return set()

    def test_files_are_roots_and_nobody_else_may_write_them(self):
        lines = output("dpkg-deb", "-c", self.package).splitlines()
        self.assertGreater(len(lines), 40)
        for line in lines:
            mode, owner = line.split()[:2]
            self.assertEqual(owner, "root/root", line)
            self.assertRegex(mode, r"^(drwxr-xr-x|-rwxr-xr-x|-rw-r--r--)$", line)
            self.assertEqual(mode == "-rwxr-xr-x", bool(re.match("./usr/bin/.", line.split()[-1])), line)

    def test_the_configuration_is_a_conffile_that_is_valid_and_open_to_this_machine_alone(self):
        self.assertEqual((self.control / "conffiles").read_text(), "/etc/maxsim/maxsimd.yaml\n")
        path = self.root / "etc/maxsim/maxsimd.yaml"
        done = subprocess.run(
            [self.root / "usr/bin/maxsimd", "--config", path, "--check-config"], capture_output=True, text=True
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""), "neither an error nor a warning")
        shown = output(self.root / "usr/bin/maxsimd", "--config", path, "--print-config")
        self.assertEqual(re.findall(r'^  address: "?(.*?):', shown, re.MULTILINE), ["127.0.0.1"] * 2)

    def test_every_program_has_a_manual_page_with_its_help(self):
        for name, section in PROGRAMS.items():
            page = gzip.decompress((self.root / f"usr/share/man/man{section}/{name}.{section}.gz").read_bytes()).decode()
            self.assertTrue(page.startswith(f".TH {name.upper()} {section} "), name)
        page = gzip.decompress((self.root / "usr/share/man/man1/maxsimctl.1.gz").read_bytes()).decode()
        self.assertIn("\\-\\-query\\-lengths", page.partition(".SH MAXSIMCTL EXPLAIN")[2])

    def test_the_unit_names_files_of_the_package(self):
        unit = (self.root / UNIT).read_text()
        started = re.search(r"^ExecStart=/(\S+) --config /(\S+)$", unit, re.MULTILINE)
        for path in started.groups():
            self.assertTrue((self.root / path).exists(), path)
        documentation = re.search(r"^Documentation=file:///(\S+)", unit, re.MULTILINE)
        self.assertTrue((self.root / documentation[1]).exists())

    def test_the_unit_of_a_clusters_servers_is_there_with_its_examples(self):
        unit = (self.root / UNIT.replace(".service", "@.service")).read_text()
        self.assertIn("ExecStart=/usr/bin/maxsimd --config /etc/maxsim/%i.yaml\n", unit)
        examples = re.search(r"are in /(\S+)\.", unit)[1]
        self.assertEqual(sorted(path.name for path in (self.root / examples).iterdir()), ["group.yaml", "router.yaml"])
        self.assertTrue((self.root / UNIT).with_name("maxsimd@router.service.d").joinpath("router.conf").exists())

    def test_systemd_takes_the_unit(self):
        # Replaces the path of the installed program, which does not exist here, by that of the unpacked program.
        unit = self.control / "maxsimd.service"
        unit.write_text((self.root / UNIT).read_text().replace("/usr/bin/", f"{self.root}/usr/bin/"))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
        self.assertNotIn("maxsimd", done.stdout + done.stderr)

    def test_holds_the_documents_that_debian_wants(self):
        folder = self.root / "usr/share/doc/maxsim-server"
        for name in ("copyright", "README.Debian", "README.md", "docs/operate/deploy.md", "examples/maxsimd.yaml"):
            self.assertGreater((folder / name).stat().st_size, 0, name)
        changes = gzip.decompress((folder / "changelog.Debian.gz").read_bytes()).decode()
        self.assertTrue(changes.startswith(f"maxsim-server ({self.field('Version')}) "), changes)


if __name__ == "__main__":
    unittest.main(verbosity=2)
