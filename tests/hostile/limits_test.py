"""Each attack for some seconds against a maxsimd with 64 descriptors, 300 threads and 1 GiB, whose clients need a token.

    limits_test.py FOLDER_OF_THE_PROGRAMS [unittest's arguments]

Probes are answered within a second meanwhile; afterwards a call is answered as before, and what the attack took is given
back. `attack.py` runs one attack for as long as one likes. MAXSIM_HOSTILE_SECONDS sets how long each is here (2).
"""

import os
import pathlib
import sys
import tempfile
import unittest

from attack import Range, run_attack
from attacks import ATTACKS
from maxsimd import Limits

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()
SECONDS = float(os.environ.get("MAXSIM_HOSTILE_SECONDS", "2"))
SEED = int(os.environ.get("MAXSIM_TEST_SEED", "1"))
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

    def attack(self, name):
        if name == "sparse_loads" and not self.site.has_sparse:
            self.skipTest("the file system has no files of 4 TiB")
        outcome = run_attack(self.site, name, SECONDS, LIMITS, memory_mib=MEMORY_MIB)
        print(f"{name}: {outcome}", flush=True)
        self.assertEqual(outcome.problems(MEMORY_MIB, LIMITS), [])


for attack_name in ATTACKS:
    setattr(LimitsTest, f"test_{attack_name}", lambda self, name=attack_name: self.attack(name))


if __name__ == "__main__":
    unittest.main(verbosity=2)
