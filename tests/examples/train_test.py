"""Runs examples/train. Training with and without the kernels must agree, the head must learn, and maxsimd must serve
its vectors.

python train_test.py LIBMAXSIM.so FOLDER_OF_THE_PROGRAMS        with torch installed
"""

import json
import os
import pathlib
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

os.environ["MAXSIM_LIBRARY"] = str(pathlib.Path(sys.argv.pop(1)).resolve())
PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()

import numpy as np  # noqa: E402

from programs import ROOT, run  # noqa: E402

sys.path[:0] = [str(ROOT / folder) for folder in ("examples/train", "client/torch", "tests/service", "tests/support")]

import program_fixture  # noqa: E402
import training  # noqa: E402
from python_package import PYTHON_CLIENT, use_package  # noqa: E402

EXAMPLE = ROOT / "examples" / "train"


class TrainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        use_package()
        scratch = tempfile.TemporaryDirectory(prefix="maxsim-train-")
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        paths = os.pathsep.join(str(path) for path in (PYTHON_CLIENT, ROOT / "client" / "torch"))
        cls.environment = dict(os.environ, PYTHONPATH=paths)
        cls.printed = run(sys.executable, EXAMPLE / "train.py", "--output", cls.folder, env=cls.environment)
        print(cls.printed, flush=True)
        cls.curves = json.loads((cls.folder / "curve.json").read_text())

    def test_the_curves_are_those_of_plain_pytorch(self):
        kernels, plain = self.curves["kernels"], self.curves["plain"]
        self.assertEqual(len(kernels["loss"]), 48)
        np.testing.assert_allclose(kernels["loss"], plain["loss"], atol=1e-2)
        np.testing.assert_allclose(kernels["loss"][:6], plain["loss"][:6], atol=1e-5)
        np.testing.assert_allclose(kernels["ndcg"], plain["ndcg"], atol=0.02)

    def test_the_head_learns(self):
        losses, quality = self.curves["kernels"]["loss"], self.curves["kernels"]["ndcg"]
        self.assertLess(np.mean(losses[-6:]), np.mean(losses[:6]) / 2)
        self.assertGreater(quality[-1], quality[0] + 0.05)
        self.assertGreater(quality[-1], self.curves["full"]["ndcg"][0] - 0.06)

    def test_the_plot_has_a_line_for_each_curve(self):
        drawing = xml.etree.ElementTree.parse(self.folder / "curve.svg")
        lines = drawing.findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual([len(line.get("points").split()) for line in lines], [48, 48, 9, 9, 9])

    def test_maxsimd_ranks_the_trained_vectors_as_the_training_did(self):
        server = program_fixture.Maxsimd(PROGRAMS, self.folder / "server", {"trained": self.folder / "collection"})
        self.addCleanup(server.stop)
        command = [sys.executable, EXAMPLE / "ask.py", "--server", server.address, "--top-k", "10"]
        command += ["--head", self.folder / "head.npy"]
        printed = run(*command, env=self.environment)
        rankings, question = {}, ""
        for line in printed.splitlines():
            found = re.match(r" +(\d+)\. (\S+) +(\d+\.\d{4}) \S", line)
            if found:
                rankings[question].append(found[2])
            else:
                question = line.split()[0]
                rankings[question] = []
        self.assertEqual({len(ranking) for ranking in rankings.values()}, {10})
        grades = {}
        for line in (ROOT / "demo" / "qrels.tsv").read_text().splitlines():
            name, passage, grade = line.split()
            grades.setdefault(name, {})[passage] = int(grade)
        quality = np.mean([training.ndcg(ranking, grades[name]) for name, ranking in rankings.items()])
        # float16 may change the order of passages whose scores are nearly equal.
        self.assertAlmostEqual(quality, self.curves["kernels"]["ndcg"][-1], delta=0.005)
        printed = run(*command, "Why do bees dance?", env=self.environment)
        self.assertIn("Why do bees dance?\n", printed)
        self.assertRegex(printed, r" 1\. bees-\d ")


if __name__ == "__main__":
    unittest.main(verbosity=2)
