"""Compiles the TypeScript client, checks its types, runs its unit tests, and checks the files of its package.

python typescript_client_test.py VERSION        VERSION: that of the project, which the package must have

Works in a copy of client/typescript, so that nothing is written into the source tree. Needs only node and tsc, not npm.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "client" / "typescript"


def run(*command, folder):
    """Runs a program, and returns what it printed. If the program fails, raises AssertionError with its output."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def packed_files(folder, package):
    """Returns the files that `npm pack` would pack. Understands only the kinds of patterns that this package's `files`
    has."""
    names = {"package.json"}
    for one in package["files"]:
        path = folder / one
        inside = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
        names.update(str(file.relative_to(folder)) for file in inside)
    return names


class TypescriptClientTest(unittest.TestCase):
    version = ""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = pathlib.Path(cls.temporary.name) / "maxsim"
        shutil.copytree(PACKAGE, cls.folder, ignore=shutil.ignore_patterns("dist", "node_modules"))
        run("tsc", "-p", ".", folder=cls.folder)
        cls.package = json.loads((cls.folder / "package.json").read_text(encoding="utf-8"))

    def test_programs_that_use_the_client_have_the_types_that_they_expect(self):
        run("tsc", "-p", "test", folder=self.folder)

    def test_the_type_checker_refuses_a_wrong_program(self):
        wrong = self.folder / "test" / "wrong.ts"
        wrong.write_text('import { Client } from "maxsim";\nnew Client(7);\n', encoding="utf-8")
        self.addCleanup(wrong.unlink)
        with self.assertRaisesRegex(AssertionError, "test/wrong.ts"):
            run("tsc", "-p", "test", folder=self.folder)

    def test_the_unit_tests_pass(self):
        files = sorted(str(file) for file in (self.folder / "test").glob("*.test.mjs"))
        self.assertGreater(len(files), 3)
        for file in files:
            with self.subTest(pathlib.Path(file).name):
                printed = run("node", "--test", file, folder=self.folder)
                self.assertRegex(printed, r"(?m)^# pass [1-9]")

    def test_the_package_has_every_file_that_it_names_and_no_source(self):
        packed = packed_files(self.folder, self.package)
        exported = [one for one in self.package["exports"].values() if isinstance(one, dict)]
        named = {path for one in exported for path in one.values()} | {self.package["types"], "./README.md"}
        self.assertEqual({path for path in named if path.removeprefix("./") not in packed}, set())
        sources = {file.stem for file in (self.folder / "src").glob("*.ts") if not file.name.endswith(".d.ts")}
        compiled = {f"dist/{name}{ending}" for name in sources for ending in (".js", ".d.ts")}
        self.assertEqual(packed, compiled | {"package.json", "README.md", "LICENSE"})

    def test_the_package_needs_no_other_and_has_the_version_of_the_project(self):
        self.assertEqual(self.package["version"], self.version)
        for name in ("dependencies", "peerDependencies", "optionalDependencies"):
            self.assertNotIn(name, self.package)
        for file in (self.folder / "dist").glob("*.js"):
            for module in re.findall(r' from "(.*?)"', file.read_text(encoding="utf-8")):
                is_own = module.startswith("./") or (file.name, module) == ("node.js", "node:https")
                self.assertTrue(is_own, f"{file.name} imports {module}")


if __name__ == "__main__":
    TypescriptClientTest.version = sys.argv.pop(1)
    unittest.main(verbosity=2)
