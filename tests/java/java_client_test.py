"""Compiles the Java client, its unit tests and the examples of its pages. Runs the unit tests, and checks the POM.

python java_client_test.py VERSION        VERSION: that of the project, which the POM must have

Needs a JDK and Debian's Jackson and JUnit (tests/support/javac.sh), not Maven. Writes nothing into the source tree.
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import zipfile
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT = ROOT / "client" / "java"
PAGES = [CLIENT / "README.md", ROOT / "docs" / "use" / "java.md"]
JAVAC = ROOT / "tests" / "support" / "javac.sh"
MAVEN = "{http://maven.apache.org/POM/4.0.0}"
# The imports and the variables that the examples of the pages use.
IMPORTS = "".join(
    f"import {name};\n"
    for name in (
        "java.net.http.HttpClient",
        "java.nio.file.Path",
        "java.time.Duration",
        "java.util.List",
        "java.util.Map",
        "javax.net.ssl.SSLContext",
        "maxsim.client.*",
    )
)
EXAMPLE = """
class Example%d {
  void run(MaxsimClient client, float[][] vectors, float[] values, List<String> ids, String token) throws Exception {
%s
  }
}
"""


def run(*command):
    """Runs a program, and returns what it printed. If the program fails, raises AssertionError with its output."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def write_examples(folder):
    """Writes each Java example of the pages as a class. Returns their files."""
    files = []
    for page in PAGES:
        for code in re.findall(r"^```java\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            text = EXAMPLE % (len(files), code)
            if "MaxsimClient client =" in code:  # A parameter cannot be declared again.
                text = text.replace("MaxsimClient client, ", "")
            files.append(folder / f"Example{len(files)}.java")
            files[-1].write_text(IMPORTS + text, encoding="utf-8")
    return files


def jar_version(jar, artifact):
    """Returns the version that Maven wrote into a jar, or that its manifest has."""
    with zipfile.ZipFile(jar) as file:
        for name in file.namelist():
            if name.endswith(f"/{artifact}/pom.properties"):
                return re.search(r"^version=(.*)$", file.read(name).decode(), re.M)[1].strip()
        manifest = file.read("META-INF/MANIFEST.MF").decode()
    return re.search(r"^Implementation-Version: (.*)$", manifest, re.M)[1].strip()


class JavaClientTest(unittest.TestCase):
    version = ""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.classes = pathlib.Path(cls.temporary.name) / "classes"
        cls.examples = write_examples(pathlib.Path(cls.temporary.name))
        cls.sources = sorted(CLIENT.glob("src/main/java/maxsim/client/*.java"))
        cls.tests = sorted(CLIENT.glob("src/test/java/maxsim/client/*.java"))
        run(JAVAC, cls.classes, *cls.sources, *cls.tests, *cls.examples)
        cls.pom = ElementTree.parse(CLIENT / "pom.xml").getroot()

    def of_pom(self, path):
        return self.pom.findtext("/".join(MAVEN + name for name in path.split("/")))

    def test_the_unit_tests_pass(self):
        names = [f"maxsim.client.{file.stem}" for file in self.tests if file.stem.endswith("Test")]
        self.assertGreater(len(names), 3)
        class_path = f"{self.classes}:{run(JAVAC, '--class-path').strip()}"
        printed = run("java", "-XX:TieredStopAtLevel=1", "-ea", "-cp", class_path, "org.junit.runner.JUnitCore", *names)
        declared = sum(file.read_text(encoding="utf-8").count("  @Test\n") for file in self.tests)
        self.assertIn(f"OK ({declared} tests)", printed)

    def test_the_pages_have_examples(self):
        self.assertGreater(len(self.examples), 4)

    def test_the_pom_has_the_version_of_the_project_and_the_release_that_is_compiled(self):
        self.assertEqual(self.of_pom("version"), self.version)
        self.assertEqual(self.of_pom("licenses/license/name"), "Apache-2.0")
        release = self.of_pom("properties/maven.compiler.release")
        self.assertIn(f"--release {release} ", JAVAC.read_text(encoding="utf-8"))

    def test_the_pom_depends_on_the_jars_that_the_client_is_compiled_with(self):
        dependencies = {}
        for one in self.pom.iter(f"{MAVEN}dependency"):
            artifact, version, scope = (one.findtext(MAVEN + name) for name in ("artifactId", "version", "scope"))
            dependencies[artifact] = version, scope
        jars = {pathlib.Path(jar).stem: jar for jar in run(JAVAC, "--class-path").strip().split(":")}
        jars["junit"] = jars.pop("junit4")
        del jars["hamcrest"]  # comes with JUnit
        self.assertEqual(set(dependencies), set(jars))
        for artifact, (version, scope) in dependencies.items():
            with self.subTest(artifact):
                # A distribution may have a later patch of the same release.
                compiled = jar_version(jars[artifact], artifact).split(".")
                self.assertEqual(version.split(".")[:2], compiled[:2])
                self.assertEqual(scope, "test" if artifact == "junit" else None)

    def test_the_client_uses_nothing_but_the_jdk_and_jackson(self):
        for file in self.sources:
            for name in re.findall(r"^import (?:static )?([\w.]+);", file.read_text(encoding="utf-8"), re.M):
                self.assertRegex(name, r"^(java|javax\.net|maxsim\.client|com\.fasterxml\.jackson)\.", file.name)


if __name__ == "__main__":
    JavaClientTest.version = sys.argv.pop(1)
    unittest.main(verbosity=2)
