"""Tests that the programs can read what earlier versions wrote (data/), and that an upgraded collection equals one that
today's programs write. Errors about files of later versions must name the files and the versions.

formats_test.py PROGRAMS
"""

import base64
import fcntl
import hashlib
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from fixture_documents import DIM, DOCUMENTS, FIELDS, LIVE_DOCUMENTS, half_rows, payload_text, write_input

DATA = pathlib.Path(__file__).resolve().parent / "data"
PROGRAMS = pathlib.Path(sys.argv.pop(1)) if __name__ == "__main__" else pathlib.Path()
READY_LIMIT_S = 120

# For each collection in data/, the options with which today's programs build the same collection.
BUILDS = {
    "manifest-1": ["--storage", "f16"],
    "manifest-1-i8": ["--storage", "i8", "--seed", "7"],
    "manifest-2": ["--storage", "f16", "--partitions", "2"],
    "manifest-3": ["--storage", "f16", "--codes", "2"],
    "manifest-4": ["--storage", "f16", "--codes", "1", "--fields", FIELDS],
}
# For each collection, the output of `maxsim-shard upgrade`.
LISTED = {
    "manifest-1": ["manifest  version 1", "shards    version 1"],
    "manifest-1-i8": ["manifest  version 1", "shards    version 1"],
    "manifest-2": ["manifest  version 2", "shards    version 1"],
    "manifest-3": ["manifest  version 3", "shards    version 1", "codes     version 1, 2 files"],
    "manifest-4": ["manifest  version 4", "shards    version 1", "codes     version 1", "fields    version 1"],
    "log-1": ["manifest  version 1", "shards    version 1", "log       version 1 -> 3"],
    "log-2": ["manifest  version 1", "shards    version 1", "log       version 2 -> 4"],
}
UPGRADED = {
    "log-1": ["manifest  version 1", "shards    version 1", "log       version 3"],
    "log-2": ["manifest  version 1", "shards    version 1", "log       version 4"],
}


def run_shard(*arguments):
    return subprocess.run([PROGRAMS / "maxsim-shard", *arguments], capture_output=True, text=True, check=False)


def digests(folder):
    """Returns the hash of each file in a folder, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


class Server:
    """A maxsimd that serves a folder as the live collection `old`."""

    def __init__(self, folder, work):
        ports = work / f"ports-{time.monotonic_ns()}.json"
        flags = {"grpc.address": "127.0.0.1:0", "http.address": "127.0.0.1:0", "backend": "cpu",
                 "live.compact": "false", "backend.cpu_threads": 1, "server.shutdown_delay": "0s",
                 "server.port_file": ports}
        command = [PROGRAMS / "maxsimd", "--collection", f"old={folder},live"]
        command += [text for name, value in flags.items() for text in (f"--{name}", str(value))]
        self.log = work / "maxsimd.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + READY_LIMIT_S
        while not (ports.exists() and ports.read_text()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"maxsimd did not become ready:\n{self.log.read_text()}")
            time.sleep(0.01)
        self.port = json.loads(ports.read_text())["http_port"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def call(self, method, path, body):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/collections/old/documents{path}", json.dumps(body).encode(),
            {"Content-Type": "application/json"}, method=method)  # fmt: skip
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def upsert(self, name, num_tokens, payload, version=0):
        rows = base64.b64encode(half_rows(name, num_tokens)).decode()
        tokens = {"dtype": "f16", "shape": [num_tokens, DIM], "data": rows}
        document = {"id": name, "tokens": tokens, "payload": payload}
        if version:
            document["version"] = version
        return self.call("PUT", "", {"documents": [document]})["results"][0]["outcome"]

    def delete(self, name, version):
        return self.call("DELETE", "", {"ids": [name], "version": version})["results"][0]["outcome"]

    def documents(self):
        """Returns (id, rows, payload, version) of each document."""
        found = self.call("POST", "/scroll", {"return_payloads": True, "return_tokens": True})["documents"]
        return [(one["id"], one["tokens"]["data"], one["payload"], one.get("version", 0)) for one in found]


class FormatsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)

    def copy(self, name):
        folder = self.work / f"{name}-{time.monotonic_ns()}"
        shutil.copytree(DATA / name, folder)
        return folder

    def must(self, *arguments):
        done = run_shard(*arguments)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def build(self, documents, options, **kind):
        """Builds a collection "old" with today's programs. Returns its folder or, with --partitions, that of the first
        partition."""
        folder = self.work / f"built-{time.monotonic_ns()}"
        arguments = write_input(self.work, documents, **kind)
        self.must("build", *arguments, "--output", folder, "--name", "old", "--quiet", *options)
        return folder / "partition-0-of-2" if "--partitions" in options else folder

    def check_formats(self, folder, lines, exit_code, last):
        done = run_shard("upgrade", folder, "--check")
        self.assertEqual(exit_code, done.returncode, done.stderr)
        self.assertEqual([*lines, f"{folder}: {last}"], done.stdout.splitlines())

    def test_every_collection_is_read_and_has_no_problem(self):
        for name in LISTED:
            with self.subTest(name):
                self.assertIn("no problem found", self.must("verify", self.copy(name)))

    def test_what_is_written_today_has_the_same_bytes(self):
        for name, options in BUILDS.items():
            with self.subTest(name):
                i8 = name == "manifest-1-i8"
                built = self.build(DOCUMENTS, options, int_ids=i8, payloads=not i8)
                old, new = digests(DATA / name), digests(built)
                del old["collection.json"], new["collection.json"]
                self.assertEqual(old, new)
                old, new = (json.loads((one / "collection.json").read_text()) for one in (DATA / name, built))
                for manifest in (old, new):
                    del manifest["created_by"], manifest["created_at"]
                self.assertEqual(old, new)

    def test_a_collection_of_a_current_version_is_not_changed(self):
        for name in BUILDS:
            with self.subTest(name):
                folder = self.copy(name)
                before = digests(folder)
                self.check_formats(folder, LISTED[name], 0, "nothing to upgrade")
                self.assertEqual(self.must("upgrade", folder).splitlines()[-1], f"{folder}: nothing to upgrade")
                self.assertEqual("", self.must("upgrade", folder, "--quiet"))
                self.assertEqual(before, digests(folder))

    def test_a_log_of_an_earlier_version_is_upgraded_once(self):
        for name in UPGRADED:
            with self.subTest(name):
                folder = self.copy(name)
                before = digests(folder)
                needed = "needs an upgrade; run maxsim-shard upgrade without --check"
                self.check_formats(folder, LISTED[name], 1, needed)
                self.assertEqual(before, digests(folder), "--check changes nothing")
                self.assertEqual([*LISTED[name], f"{folder}: upgraded"], self.must("upgrade", folder).splitlines())
                self.check_formats(folder, UPGRADED[name], 0, "nothing to upgrade")
                self.assertIn("no problem found", self.must("verify", folder))
                for file in ("collection.json", "shard-000001-00000.safetensors"):
                    self.assertEqual(before[file], digests(folder)[file])

    def test_an_upgraded_log_compacts_to_what_a_build_writes(self):
        built = self.build(LIVE_DOCUMENTS, ["--storage", "f16"]) / "shard-000001-00000.safetensors"
        for name in UPGRADED:
            with self.subTest(name):
                folder = self.copy(name)
                self.must("upgrade", folder)
                self.must("compact", folder)
                self.assertEqual(built.read_bytes(), (folder / "shard-000003-00000.safetensors").read_bytes())

    def write_anew(self):
        """Makes the collection of log-1 with today's programs."""
        folder = self.copy("manifest-1")
        with Server(folder, self.work) as server:
            self.assertEqual("not_found", server.delete("z", 3))
            self.assertEqual("applied", server.delete("b", 9))
            self.assertEqual("applied", server.upsert("e", 2, {"lang": "it"}, 5))
            self.assertEqual("applied", server.delete("a", 7))
            self.assertEqual("applied", server.upsert("d", 1, {"lang": "fr", "year": 2000}))
        return folder

    def answers(self, folder):
        """Returns a server's documents, the outcomes of writes that depend on versions, and the documents after these
        writes."""
        with Server(folder, self.work) as server:
            documents = server.documents()
            outcomes = [
                server.upsert("z", 1, {}, 2),
                server.upsert("b", 1, {}, 9),
                server.delete("a", 7),
                server.delete("e", 4),
                server.upsert("a", 1, {}, 8),
                server.upsert("c", 1, {}, 1),
                server.delete("z", 4),
            ]
            return documents, outcomes, server.documents()

    def test_a_server_answers_as_for_a_log_that_is_written_today(self):
        expected = self.answers(self.write_anew())
        self.assertEqual(["c", "d", "e"], [document[0] for document in expected[0]])
        self.assertEqual(["stale", "stale", "stale", "stale", "applied", "applied", "not_found"], expected[1])
        self.assertEqual(expected, self.answers(self.copy("log-1")), "the server upgrades the log")
        upgraded = self.copy("log-1")
        self.must("upgrade", upgraded)
        self.assertEqual(expected, self.answers(upgraded), "maxsim-shard has upgraded the log")

    def test_the_fixture_has_the_documents_that_it_should_have(self):
        with Server(self.copy("log-1"), self.work) as server:
            found = {name: (rows, payload) for name, rows, payload, _ in server.documents()}
        self.assertEqual({
            name: (base64.b64encode(half_rows(name, num_tokens)).decode(), json.loads(payload_text(payload)))
            for name, num_tokens, payload in LIVE_DOCUMENTS
        }, found)  # fmt: skip

    def test_a_log_that_another_process_has_open_is_not_upgraded(self):
        folder = self.copy("log-1")
        before = digests(folder)
        with open(folder / "log" / "acknowledged", "rb+") as mark:
            fcntl.flock(mark, fcntl.LOCK_EX)
            needed = "needs an upgrade; run maxsim-shard upgrade without --check"
            self.check_formats(folder, LISTED["log-1"], 1, needed)
            done = run_shard("upgrade", folder)
        self.assertEqual(1, done.returncode)
        self.assertIn("is open in another process", done.stderr)
        self.assertEqual(before, digests(folder))

    def test_files_of_later_versions_are_refused_with_file_and_versions(self):
        cases = (
            ("collection.json", b'"format_version": 4', b'"format_version": 5',
             "format_version: 5; this version reads 1 to 4"),
            ("shard-000001-00000.safetensors", b'"format_version":"1"', b'"format_version":"2"',
             '__metadata__.format_version: "2"; this version reads "1"'),
            ("codes-000001-00000-plane0.safetensors", b'"format_version":"1"', b'"format_version":"3"',
             '__metadata__.format_version: "3"; this version reads "1"'),
            ("fields-000001-00000.safetensors", b'"format_version":"1"', b'"format_version":"9"',
             '__metadata__.format_version: "9"; this version reads "1"'),
        )  # fmt: skip
        for file, old, new, message in cases:
            for command in (["inspect"], ["upgrade", "--check"], ["upgrade"]):
                with self.subTest(file, command=command):
                    folder = self.copy("manifest-4")
                    data = (folder / file).read_bytes()
                    self.assertEqual(1, data.count(old))
                    (folder / file).write_bytes(data.replace(old, new))
                    before = digests(folder)
                    done = run_shard(*command, folder)
                    self.assertEqual(1, done.returncode)
                    self.assertIn(f"{folder / file}: {message}", done.stderr)
                    self.assertEqual(before, digests(folder))


if __name__ == "__main__":
    unittest.main(verbosity=2)
