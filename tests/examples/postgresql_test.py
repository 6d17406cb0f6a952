"""Runs examples/first_stage/ask_postgresql.py with Debian's PostgreSQL and PL/Python, and a separate maxsimd.

python postgresql_test.py FOLDER_OF_THE_PROGRAMS
"""

import pathlib
import sys
import unittest

from ranking_program_case import ProgramTest
from postgresql_server import PostgreSQL, debian_programs
from programs import Maxsimd

PROGRAMS = pathlib.Path(sys.argv.pop(1)).resolve()


class PostgreSQLTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        programs = debian_programs()
        if programs is None:
            raise AssertionError("needs postgresql and postgresql-plpython3 (deploy/apt-packages.txt)")
        cls.server = Maxsimd(PROGRAMS)
        cls.addClassCleanup(cls.server.stop)
        cls.postgresql = PostgreSQL(programs)
        cls.addClassCleanup(cls.postgresql.stop)

    def test_full_text_search_with_the_function_in_plpython(self):
        options = ["--url", self.server.url, "--database", self.postgresql.database]
        self.check_postgresql("maxsim_rerank.sql", "postgresql, full text", options)
        self.check_function(self.postgresql, "maxsim_rerank.sql", self.server.url)


if __name__ == "__main__":
    unittest.main(verbosity=2)
