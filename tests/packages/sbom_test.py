"""Tests the component lists (SBOM) of scripts/packages/sbom.py. They must be valid by CycloneDX's schema, and name
every library of the programs and every installed package of the base image. Invalid input must be refused.

python sbom_test.py BUILD_FOLDER          in an environment with the packages of release.txt
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import packageurl
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts" / "packages"
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
# The scripts need packages of the distribution's Python only.
PYTHON = os.environ.get("MAXSIM_PYTHON", "/usr/bin/python3")
TIME = "1700000000"

OS_RELEASE = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n'
STATUS = """\
Package: libssl3
Status: install ok installed
Maintainer: Debian OpenSSL Team <openssl@example.org>
Architecture: arm64
Source: openssl
Version: 3.0.17-1~deb12u2
Description: a library
 with two lines

Package: login
Status: install ok installed
Architecture: arm64
Source: shadow (1:4.13+dfsg1-1)
Version: 1:4.13+dfsg1-1+b1

Package: removed
Status: deinstall ok config-files
Architecture: arm64
Version: 1.0
"""


def run(*command):
    environment = {**os.environ, "SOURCE_DATE_EPOCH": TIME, "MAXSIM_PYTHON": PYTHON}
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment)


class SbomTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-sbom-")
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        cls.programs = cls.folder / "programs"
        done = run(SCRIPTS / "make-image-programs.sh", BUILD, cls.programs)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        cls.list = json.loads((cls.programs / "sbom.json").read_text())

    def image(self, os_release=OS_RELEASE, status=STATUS, programs=None):
        """Runs the script for an image. Returns the finished process, and the path of its output."""
        texts = {"os-release": os_release, "status": status, "programs.json": programs or json.dumps(self.list)}
        for name, text in texts.items():
            (self.folder / name).write_text(text)
        made = self.folder / "image.json"
        made.unlink(missing_ok=True)
        arguments = [self.folder / name for name in ("programs.json", "os-release", "status")]
        return run(PYTHON, "-B", SCRIPTS / "sbom.py", "image", *arguments, made), made

    def image_list(self):
        done, made = self.image()
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(made.read_text())

    def test_both_lists_are_valid_by_the_schema_of_cyclonedx(self):
        validator = JsonStrictValidator(SchemaVersion.V1_6)
        for one in (self.list, self.image_list()):
            self.assertIsNone(validator.validate_str(json.dumps(one)))
        wrong = json.loads(json.dumps(self.list))
        wrong["components"][0]["purl"] = 7
        self.assertIsNotNone(validator.validate_str(json.dumps(wrong)))

    def test_every_reference_is_unique_and_leads_to_a_component(self):
        made = self.image_list()
        references = [one["bom-ref"] for one in [made["metadata"]["component"], *made["components"]]]
        self.assertEqual(len(references), len(set(references)))
        used = {name for one in made["dependencies"] for name in [one["ref"], *one["dependsOn"]]}
        self.assertEqual(used, set(references))

    def test_every_bundled_library_and_compiled_in_header_is_in_the_list_with_its_licence(self):
        files = {one["value"]: part["name"] for part in self.list["components"] for one in part["properties"]}
        libraries = {path.name for path in (self.programs / "lib").iterdir()}
        self.assertGreater(len(libraries), 20)
        self.assertEqual(libraries - set(files), set())
        self.assertLessEqual({"CLI.hpp", "json.hpp"}, set(files))
        self.assertRegex(files["version.hpp"], "^libboost")
        for package in {files[name] for name in libraries}:
            self.assertTrue((self.programs / "licences" / package / "copyright").stat().st_size, package)

    def test_package_urls_name_package_version_and_source(self):
        made = {one["name"]: packageurl.PackageURL.from_string(one["purl"]) for one in self.image_list()["components"]
                if one.get("purl") and not one["bom-ref"].startswith("bundled:")}
        self.assertEqual(set(made), {"libssl3", "login"})
        self.assertEqual(made["libssl3"].version, "3.0.17-1~deb12u2")
        self.assertEqual(made["libssl3"].qualifiers, {"arch": "arm64", "distro": "debian-12", "upstream": "openssl"})
        self.assertEqual(made["login"].version, "1:4.13+dfsg1-1+b1")
        self.assertEqual(made["login"].qualifiers["upstream"], "shadow@1:4.13+dfsg1-1")

    def test_the_programs_have_their_version_and_the_list_the_time_it_is_told(self):
        shown = subprocess.run([self.programs / "bin" / "maxsimd", "--version"], capture_output=True, text=True).stdout
        self.assertEqual(self.list["metadata"]["component"]["version"], shown.split()[1])
        self.assertEqual(self.image_list()["metadata"]["timestamp"], "2023-11-14T22:13:20Z")

    def test_the_same_input_gives_the_same_bytes_and_another_input_another_serial_number(self):
        first = self.image()[1].read_bytes()
        self.assertEqual(self.image()[1].read_bytes(), first)
        programs = json.loads(json.dumps(self.list))
        programs["components"][0]["version"] += "+1"
        others = [self.image(**changed)[1].read_bytes() for changed in ({"status": STATUS.replace("+b1", "+b2")},
                                                                        {"programs": json.dumps(programs)})]
        self.assertEqual(len({json.loads(made)["serialNumber"] for made in (first, *others)}), 3)

    def test_files_that_describe_no_debian_are_refused_by_name(self):
        for arguments, named in (({"os_release": "ID=alpine\n"}, "os-release has no VERSION_ID"),
                                 ({"status": "P:musl\nV:1.2.4\n"}, "dpkg's status names no installed package"),
                                 ({"programs": "none"}, "sbom: ")):
            done, made = self.image(**arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(named, done.stderr)
            self.assertNotIn("Traceback", done.stderr)
            self.assertFalse(made.exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
