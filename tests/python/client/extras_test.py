"""Checks that the errors of `maxsim import` about missing libraries name the same packages as the extras in
client/python/pyproject.toml.

python extras_test.py
"""

import re
import unittest

from client_fixture import TESTS

PYTHON = TESTS.parent / "client" / "python"
# A quoted requirement: package, its extras in brackets, and the oldest release.
REQUIREMENT = re.compile(r'"([a-zA-Z0-9._-]+)(?:\[([^\]"]*)\])?>=[0-9.]+"')
# Extras must be normalized as in PEP 685, because otherwise pip might not recognise another spelling of the same extra.
NORMAL = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class ExtrasTest(unittest.TestCase):
    def test_importers_name_the_requirements_of_an_extra_as_packages_spell_them(self):
        extras = (PYTHON / "pyproject.toml").read_text(encoding="utf-8")
        registry = (PYTHON / "maxsim/importers/registry.py").read_text(encoding="utf-8")
        self.assertIn('import-milvus = ["pymilvus[milvus-lite]>=2.6"]', extras)
        named = [*REQUIREMENT.finditer(registry)]
        self.assertGreater(len(named), 4)
        for found in named:
            self.assertIn(found[0], extras)
            for name in (found[1], *(found[2] or "").split(",")):
                self.assertTrue(not name or NORMAL.fullmatch(name), found[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
