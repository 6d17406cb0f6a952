"""Runs HTTP/2 attacks against a maxsimd that is protected by nginx (deploy/nginx/maxsimd.conf).

    proxy_test.py FOLDER_OF_THE_PROGRAMS FOLDER_FOR_NGINX [unittest's arguments]

The server requires no token, so it accepts every connection, and only the proxy protects it. If nginx is not installed,
the distribution's package is unpacked into FOLDER_FOR_NGINX. MAXSIM_HOSTILE_SECONDS sets the duration of each attack in
seconds (2).
"""

import os
import pathlib
import sys
import tempfile
import unittest

import grpc
from attack import Range, run_attack
from maxsimd import MIB, Limits
from proxy import Proxy, find_nginx

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
NGINX = find_nginx(pathlib.Path(sys.argv.pop(1)).resolve())
SECONDS = float(os.environ.get("MAXSIM_HOSTILE_SECONDS", "2"))
SEED = int(os.environ.get("MAXSIM_TEST_SEED", "1"))
MEMORY_MIB = 1024
# gRPC 1.51 has no limits against the first three floods. It refuses the last one without the proxy's help.
FLOODS = ["continuation_flood", "indexed_headers", "rapid_resets", "announced_message"]


class ProxyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="maxsim-proxy-")
        cls.site = Range(PROGRAMS, cls.temporary.name, SEED)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def attack(self, name):
        seen = {}

        def through_proxy(server):
            proxy = Proxy(NGINX, pathlib.Path(self.temporary.name) / f"nginx-{name}", server.grpc_port)
            seen["proxy"] = proxy
            return proxy

        def usable(proxy):
            seen["rss_bytes"] = proxy.rss_bytes()
            with grpc.insecure_channel(f"127.0.0.1:{proxy.port}") as channel:
                check = channel.unary_unary("/grpc.health.v1.Health/Check")
                self.assertEqual(check(b"", timeout=60), b"\x08\x01")

        limits = Limits()
        outcome = run_attack(self.site, name, SECONDS, limits, False, MEMORY_MIB, through_proxy, usable)
        print(f"{name}: {outcome}; nginx {seen['rss_bytes'] / MIB:.0f} MiB", flush=True)
        self.assertEqual(outcome.problems(MEMORY_MIB, limits), [])
        self.assertLess(seen["rss_bytes"], MEMORY_MIB * MIB)


for flood_name in FLOODS:
    setattr(ProxyTest, f"test_{flood_name}", lambda self, name=flood_name: self.attack(name))


if __name__ == "__main__":
    unittest.main(verbosity=2)
