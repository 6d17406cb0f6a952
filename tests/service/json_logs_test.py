#!/usr/bin/env python3
"""Tests that JSON log lines contain numbers and booleans as JSON numbers and booleans, and not as strings.

  json_logs_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from program_fixture import Maxsimd

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
# These fields are always strings, even if the value looks like a number, because it can be a name that a user chose.
TEXTS = {"time", "level", "message", "version", "commit", "request_id", "name", "collection", "peer", "error", "table", "path"}
NUMBER = re.compile(r"-?\d[\d,.]*( ?([KMGT]i?B|B|%|[µun]?s|ms|min|of \d+))?|true|false")
EVENTS = {"backend", "collection_load_failed", "collection_loaded", "collection_unloaded", "compacted", "draining",
          "listening", "live_opened", "live_served", "memory_plan", "request", "slow_request", "starting", "stopped",
          "stopping", "tokens_reloaded", "admin_call"}


def numbers_as_text(event):
    """Returns the fields of an event that hold a number or a bool as text."""
    wrong = {key: value for key, value in event.items()
             if key not in TEXTS and isinstance(value, str) and NUMBER.fullmatch(value)}
    if re.search(r"\b[a-z_]+=", event["message"]):
        wrong["message"] = event["message"]
    return wrong


class JsonLogsTest(unittest.TestCase):
    def test_no_field_of_a_servers_events_is_a_number_as_text(self):
        scratch = tempfile.TemporaryDirectory(prefix="json-logs-")
        self.addCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        for name in ("demo", "live"):
            subprocess.run([ROOT / "demo" / "build.sh", "--bin", PROGRAMS, "--output", folder / name], check=True)
        tokens = folder / "tokens"
        tokens.write_text("secret\n")
        server = Maxsimd(PROGRAMS, folder / "server", {"demo": folder / "demo", "live": f"{folder / 'live'},live"},
                         log__format="json", log__level="debug", log__slow_request="1us", auth__admin_tokens_file=tokens,
                         store__allowed_roots=folder, server__shutdown_delay="10ms")
        self.addCleanup(server.stop)

        def administer(*arguments):
            return subprocess.run([PROGRAMS / "maxsimctl", "--server", server.address, "--token-file", tokens, *map(str, arguments)],
                                  capture_output=True, text=True, check=False)

        def post(method, path, body):
            request = urllib.request.Request(server.url + path, data=json.dumps(body).encode(), method=method,
                                             headers={"Authorization": "Bearer secret"})
            with urllib.request.urlopen(request) as answer:
                answer.read()

        vector = [[1.0] + [0.0] * 127]
        post("POST", "/v1/rerank", {"model": "demo", "query": vector, "documents": "*"})
        post("PUT", "/v1/collections/live/documents", {"documents": [{"id": "new", "tokens": vector}]})
        done = administer("compact", "live")
        self.assertEqual(done.returncode, 0, done.stderr)
        (folder / "demo" / "collection.json").write_text("{}")
        self.assertNotEqual(administer("reload", "demo").returncode, 0)
        self.assertEqual(administer("unload", "demo").returncode, 0)
        server.process.send_signal(signal.SIGHUP)
        limit = time.monotonic() + 60
        while "tokens_reloaded" not in server.log() and time.monotonic() < limit:
            time.sleep(0.02)
        server.process.terminate()
        server.process.wait(60)
        events = [json.loads(line) for line in server.log().splitlines()]
        seen = {event["message"] for event in events}
        self.assertEqual({event for event in EVENTS if not any(event in one for one in seen)}, set())
        self.assertEqual([event for event in events if numbers_as_text(event)], [])

    def test_no_source_formats_a_number_for_a_field(self):
        """Checks the source code instead of a log, because some events occur only with a GPU, a cluster or a broken
        disk."""
        wrong = []
        for path in sorted((ROOT / "server").rglob("*.cc")):
            source = path.read_text()
            for call in re.finditer(r"log::Write(Table)?\(.*?\);\n", source, re.DOTALL):
                for sign in (r'"true"', r"WriteBytes\(", r'\{"[a-z_]+",\s*[^{}]*StrCat\(', r"FormatDuration\("):
                    if re.search(sign, call[0]):
                        wrong.append(f"{path.relative_to(ROOT)}: {' '.join(call[0].split())}")
            for call in re.finditer(r"spdlog::(info|warn|error|critical)\([^;]*=\{\}", source):
                wrong.append(f"{path.relative_to(ROOT)}: {' '.join(call[0].split())}")
        self.assertEqual(wrong, [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
