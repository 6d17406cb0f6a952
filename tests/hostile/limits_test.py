"""Runs each attack for some seconds against a maxsimd with 64 descriptors, 300 threads and 1 GiB of memory, which
requires a token.

    limits_test.py FOLDER_OF_THE_PROGRAMS [unittest's arguments]

During an attack the server must answer probes. Afterwards it must answer a call as before, and have freed what the
attack used. `attack.py` runs one attack for any length of time. MAXSIM_HOSTILE_SECONDS sets the minimum duration of
each attack (1).
"""

import os
import pathlib
import sys
import tempfile
import unittest

import grpc
from attack import STOP_LIMIT_S, Range, run_attack, start_attacker
from attacks import ATTACKS, TRUSTED_NOT_TO
from maxsimd import Limits, Maxsimd

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
SECONDS = float(os.environ.get("MAXSIM_HOSTILE_SECONDS", "1"))
SEED = int(os.environ.get("MAXSIM_TEST_SEED", "1"))
# Attacks that must run this many times as long before they show an effect.
SLOWER = {"unread_answers": 6}
MEMORY_MIB = 1024
LIMITS = Limits(descriptors=64, threads=300)


class LimitsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if LIMITS.threads is None:
            print("threads are not limited: that takes root, who gives the server a user of its own", flush=True)
        cls.temporary = tempfile.TemporaryDirectory(prefix="maxsim-hostile-")
        cls.site = Range(PROGRAMS, cls.temporary.name, SEED)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def attack(self, name, site=None, limits=LIMITS):
        if name == "sparse_loads" and not self.site.has_sparse:
            self.skipTest("needs a file system with sparse files of 4 TiB")
        outcome = run_attack(site or self.site, name, SECONDS * SLOWER.get(name, 1), limits, memory_mib=MEMORY_MIB)
        print(f"{name}: {outcome}", flush=True)
        self.assertEqual(outcome.problems(MEMORY_MIB, limits), [])

    # gRPC counts a thread before it starts the thread, and at shutdown waits for all counted threads. So it waits
    # forever if a thread could not be started. The server must end in time nevertheless.
    def test_a_server_that_was_refused_threads_ends_in_time(self):
        if LIMITS.threads is None:
            self.skipTest("needs root: threads are not limited")
        folder = self.site.folder / "server-no-threads"
        with Maxsimd(PROGRAMS, folder, self.site.collection, LIMITS) as server:
            self.site.questions.learn(server)
            num_threads = server.usage().threads
            server.limit_threads(num_threads)
            with start_attacker(self.site, server, "rapid_resets_with_token", SECONDS) as attacker:
                attacker.communicate()
            code, seconds = server.stop(STOP_LIMIT_S)
            print(f"with {num_threads} threads it stops with {code} in {seconds:.1f} s", flush=True)
            self.assertIn(code, (0, 4), server.log_end(3000))
            self.assertEqual("shutdown_overdue" in server.log(), code == 4)

    def test_live_collections_beyond_what_the_process_may_open_are_refused(self):
        if LIMITS.threads is None:
            self.skipTest("needs root: threads are not limited")
        from maxsim.v1 import admin_pb2, admin_pb2_grpc  # generated

        folder = self.site.folder / "with-live-collections"
        folder.mkdir()
        site = Range(PROGRAMS, folder, SEED)
        root = site.collection.parent / "live"
        root.mkdir()
        root.chmod(0o777)
        # The server runs as another user, which must be able to write the list of created collections into the allowed
        # root.
        root.parent.chmod(0o777)
        # Live collections may use half of the descriptors, and each needs 48. So the server must refuse most of these
        # collections.
        limits = Limits(descriptors=256, threads=LIMITS.threads)
        with Maxsimd(PROGRAMS, site.folder / "server-live", site.collection, limits) as server:
            channel = server.channel()
            self.addCleanup(channel.close)
            create = admin_pb2_grpc.AdminStub(channel).CreateCollection
            site.questions.learn(server)
            server.limit_threads(server.usage().threads + 24)
            created = 0
            with self.assertRaises(grpc.RpcError) as refused:
                for i in range(100):
                    request = admin_pb2.CreateCollectionRequest(name=f"live-{i}", dim=8, path=str(root / f"live-{i}"))
                    create(request, metadata=server.metadata(), timeout=60)
                    created += 1
            self.assertGreater(created, 0)
            self.assertIn(
                refused.exception.code(),
                (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE),
                refused.exception.details(),
            )
            self.assertTrue(server.alive(), server.log_end(3000))
            self.assertEqual(site.questions.ask(server, 0), "")
        # A new server loads the created collections again, and must have enough descriptors left for connections.
        self.attack("slow_bodies", site, limits)


for attack_name in sorted(ATTACKS.keys() - TRUSTED_NOT_TO):
    setattr(LimitsTest, f"test_{attack_name}", lambda self, name=attack_name: self.attack(name))


if __name__ == "__main__":
    unittest.main(verbosity=2)
