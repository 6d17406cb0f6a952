"""Tests writes that lose too much precision in i8 storage. They must be counted, logged and, with
live.refuse_lossy_tokens, refused. Compactions count such tokens again.

    loss_test.py FOLDER_OF_THE_PROGRAMS
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import grpc
import numpy as np

import server as client
from server import admin_pb2, rerank_pb2

PROGRAMS = None
NAME, DIM, TOKENS = "x", 16, 5
NUM_LOST = TOKENS - 1  # tokens of lossy() that become zeros


def sound(seed):
    return np.random.default_rng(seed).standard_normal((TOKENS, DIM)).astype(np.float32)


def lossy(seed):
    """Returns a document whose first token vector is so long that i8 rounds all others to zero."""
    rows = sound(seed)
    rows[0] *= 1e6
    return rows


class LossTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-loss-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def start(self, storage=rerank_pb2.DATA_TYPE_I8, **flags):
        server = client.Server(PROGRAMS, self.folder, {**client.NEVER_COMPACTS, **flags})
        self.addCleanup(server.kill)
        server.start()
        request = admin_pb2.CreateCollectionRequest(name=NAME, path=str(self.folder / NAME), dim=DIM, storage=storage)
        server.admin.CreateCollection(request, timeout=client.CALL_LIMIT_S)
        return server

    def upsert(self, server, **documents):
        made = [client.document(id, rows) for id, rows in documents.items()]
        return server.upsert(client.upsert_request(NAME, made))

    def counted(self, server, kind):
        address = f"http://{server.host}:{server.http_port}/metrics"
        with urllib.request.urlopen(address, timeout=client.CALL_LIMIT_S) as answer:
            metrics = answer.read().decode()
        found = re.search(rf'^maxsim_live_lossy_tokens_total{{collection="{NAME}",kind="{kind}"}} (\d+)$', metrics, re.M)
        return int(found[1]) if found else 0

    def expect_counted(self, server, count, kind="zeroed"):
        """Waits until the metric is `count`. The server caches the text of its metrics for a while."""
        until = time.monotonic() + client.CALL_LIMIT_S
        while self.counted(server, kind) != count:
            self.assertLess(time.monotonic(), until, f"{self.counted(server, kind)} {kind} tokens are counted")
            time.sleep(0.05)

    def lines(self, server, event):
        """Returns the log lines of an event. The server writes its log in a separate thread, so a line may be missing
        just after the answer to its call."""
        return [line for line in server.log().splitlines() if re.search(rf" {event} ", line)]

    def wait_for_line(self, server, event):
        """Waits for the first log line of an event, and returns it."""
        until = time.monotonic() + client.CALL_LIMIT_S
        while not (lines := self.lines(server, event)):
            self.assertLess(time.monotonic(), until, f"no line {event} in the log:\n{server.log_end()}")
            time.sleep(0.05)
        return lines[0]

    def test_lossy_upserts_are_counted_and_logged(self):
        server = self.start()
        self.upsert(server, a=sound(1))
        self.upsert(server, a=lossy(1), b=sound(2), c=lossy(3))
        self.expect_counted(server, 2 * NUM_LOST)
        self.upsert(server, d=lossy(4))
        self.expect_counted(server, 3 * NUM_LOST)
        self.assertEqual(self.counted(server, "coarse"), 0)
        line = self.wait_for_line(server, "lossy_tokens")  # at most one a minute
        self.assertIn(f"collection={NAME} documents=2 zeroed={2 * NUM_LOST} coarse=0 reason=", line)

    def test_f16_loses_none(self):
        server = self.start(rerank_pb2.DATA_TYPE_F16)
        self.upsert(server, a=lossy(1) / 100)
        server.stop()  # writes all of the log
        self.assertEqual(self.lines(server, "lossy_tokens"), [])

    def test_a_key_refuses_them(self):
        server = self.start(**{"live.refuse_lossy_tokens": "true"})
        with client.refused(grpc.StatusCode.INVALID_ARGUMENT) as found:
            self.upsert(server, a=sound(1), b=lossy(2))
        self.assertRegex(found[0].details(), r"^documents\[1\]\.tokens: i8 keeps too little of 4 tokens of 1 document")
        self.assertEqual(client.missing_ids(server.get(client.get_request(NAME, ["a", "b"]))), ["a", "b"])
        self.upsert(server, a=sound(1))
        server.stop()  # writes all of the log
        self.assertEqual(self.lines(server, "lossy_tokens"), [])

    def test_a_compaction_counts_them(self):
        server = self.start()
        self.upsert(server, a=lossy(1), b=sound(2), c=lossy(3))
        server.compact(NAME)
        line = self.wait_for_line(server, "compacted")
        self.assertIn(f" lossy_tokens={2 * NUM_LOST} ", line)
        self.upsert(server, d=lossy(4))
        server.stop()
        # The program writes a shard for document d and keeps the shard with a, b and c.
        compacted = subprocess.run(
            [PROGRAMS / "maxsim-shard", "compact", self.folder / NAME], capture_output=True, text=True
        )
        self.assertEqual(compacted.returncode, 0, compacted.stderr)
        self.assertRegex(
            compacted.stderr,
            rf"warning: {self.folder / NAME}: i8 keeps too little of {NUM_LOST} tokens of 1 document "
            rf"\({NUM_LOST} became zeros\)",
        )


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
