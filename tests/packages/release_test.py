"""Tests the workflow that publishes a release. It must be valid by GitHub's schema, its shell commands must parse, and
the scripts and make targets that it calls must exist. It must name no registry, and name actions by their commits.

python release_test.py          in an environment with the packages of release.txt
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")


def check_schema(path):
    """Checks a workflow against GitHub's schema, which the checker contains. Returns the finished process of the
    checker."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", path]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True)


class ReleaseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = WORKFLOW.read_text()
        cls.jobs = yaml.safe_load(cls.text)["jobs"]
        cls.steps = [step for job in cls.jobs.values() for step in job["steps"]]
        cls.commands = [step["run"] for step in cls.steps if "run" in step]

    def test_githubs_schema_takes_the_workflow(self):
        done = check_schema(WORKFLOW)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as wrong:
            wrong.write(self.text.replace("runs-on:", "run-on:", 1))
            wrong.flush()
            self.assertNotEqual(check_schema(wrong.name).returncode, 0)

    def test_every_action_is_named_by_its_commit_and_version(self):
        used = re.findall(r"^ +(?:- )?uses: (.*)$", self.text, re.MULTILINE)
        self.assertEqual(len(used), sum("uses" in step for step in self.steps))
        self.assertGreaterEqual(len(used), 4)
        for action in used:
            self.assertRegex(action, r"^[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")

    def test_every_command_parses_and_calls_scripts_and_targets_that_are_there(self):
        targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        for command in self.commands:
            command = EXPRESSION.sub("x", command)
            done = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            for script in re.findall(r"(?<![\w/])(?:scripts|tests)/[\w/.-]+", command):
                self.assertTrue((ROOT / script).stat().st_mode & 0o100, script)
            for words in re.findall(r"^make (.*)$", command, re.MULTILINE):
                self.assertLessEqual({word for word in words.split() if "=" not in word}, targets)

    def test_the_programs_of_both_variants_are_built_for_both_machines(self):
        built = {(row["variant"], row["arch"]) for row in self.jobs["build"]["strategy"]["matrix"]["include"]}
        script = (ROOT / "scripts" / "packages" / "publish-images.sh").read_text()
        variants = re.search(r"^for variant in (.*); do$", script, re.MULTILINE)[1].split()
        machines = re.search(r"^ +for arch in (.*); do$", script, re.MULTILINE)[1].split()
        self.assertEqual(built, {(variant, arch) for variant in variants for arch in machines})

    def test_hosts_of_registries_are_variables_alone(self):
        without_images = re.sub(r"nvidia/cuda:[\w.-]+", "", self.text)
        self.assertEqual(re.findall(r"\b[\w-]+\.(?:io|com|org|dev|net)\b", without_images), [])
        self.assertEqual(set(re.findall(r"vars\.(\w+)", self.text)), {"REGISTRY", "BASE_REGISTRY"})

    def test_only_steps_of_the_job_that_needs_approval_have_secrets(self):
        build, publish = self.jobs["build"], self.jobs["publish"]
        self.assertNotIn("secrets.", yaml.safe_dump(build))
        self.assertNotIn("permissions", build)
        self.assertEqual(yaml.safe_load(self.text)["permissions"], {"contents": "read"})
        self.assertEqual((publish["needs"], publish["environment"]), ("build", "release"))
        # A run that was started by hand must publish nothing, even if it was started for a tag.
        self.assertEqual(publish["if"], "github.event_name == 'push'")
        # Only single steps may have secrets. As environment of a job or an action, secrets would reach other programs.
        with_secrets = [step for step in publish["steps"] if "secrets." in yaml.safe_dump(step)]
        self.assertTrue(with_secrets)
        self.assertNotIn("secrets.", yaml.safe_dump({key: value for key, value in publish.items() if key != "steps"}))
        self.assertEqual([step["name"] for step in with_secrets if "uses" in step or "secrets." in step["run"]], [])

    def test_the_page_for_releasers_names_every_variable_and_secret(self):
        page = (ROOT / "docs" / "internals" / "releasing.md").read_text()
        for name in re.findall(r"(?:vars|secrets)\.(\w+)", self.text):
            self.assertIn(f"`{name}`", page)

    def test_files_are_published_only_after_their_checksums_are_signed(self):
        names = [step.get("name", "") for step in self.jobs["publish"]["steps"]]
        signed = max(index for index, name in enumerate(names) if name.startswith("Sign "))
        for name in ("Publish the Python packages", "Make the release's page"):
            self.assertGreater(names.index(name), signed)


if __name__ == "__main__":
    unittest.main(verbosity=2)
