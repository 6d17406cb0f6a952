"""A restarted server must serve the collections that CreateCollection made, unless live.restore_created says otherwise.

    created_test.py FOLDER_OF_THE_PROGRAMS
"""

import pathlib
import sys
import tempfile
import unittest

import numpy as np

import server as client
from server import admin_pb2

PROGRAMS = None
DIM = 8


class CreatedTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="maxsim-created-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def start(self, restores=None):
        flags = {} if restores is None else {"live.restore_created": str(restores).lower()}
        server = client.Server(PROGRAMS, self.folder, {**client.NEVER_COMPACTS, **flags})
        self.addCleanup(server.kill)
        server.start()
        return server

    def create(self, server, name):
        request = admin_pb2.CreateCollectionRequest(name=name, path=str(self.folder / name), dim=DIM)
        server.admin.CreateCollection(request, timeout=client.CALL_LIMIT_S)
        self.write(server, name, "a")

    def write(self, server, name, id):
        rows = np.full((2, DIM), 0.5, np.float32)
        server.upsert(client.upsert_request(name, [client.document(id, rows)]))

    def served(self, server):
        """Returns the names of the collections, in order."""
        listed = server.admin.ListCollections(admin_pb2.ListCollectionsRequest(), timeout=client.CALL_LIMIT_S)
        return sorted(one.name for one in listed.collections)

    def expect_documents(self, server, name, ids):
        found = server.get(client.get_request(name, ids)).documents
        self.assertEqual([one.string_id for one in found], ids)

    def test_the_key_keeps_them_out_until_it_is_gone(self):
        server = self.start()
        self.create(server, "c")
        server.stop()

        server = self.start(restores=False)
        self.assertEqual(self.served(server), [])
        self.create(server, "d")
        self.assertEqual(self.served(server), ["d"])
        server.stop()
        server = self.start(restores=False)
        self.assertEqual(self.served(server), [])
        # If a created collection is later loaded by a call, it must have its documents and accept writes.
        server.load("c", self.folder / "c")
        self.expect_documents(server, "c", ["a"])
        self.write(server, "c", "b")
        server.stop()

        server = self.start(restores=True)
        self.assertEqual(self.served(server), ["c", "d"])
        self.expect_documents(server, "c", ["a", "b"])
        self.expect_documents(server, "d", ["a"])
        server.unload("c")
        server.stop()
        server = self.start()
        self.assertEqual(self.served(server), ["d"])


if __name__ == "__main__":
    PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
