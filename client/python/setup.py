"""Adds the generated messages to the wheel; everything else is in pyproject.toml."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))


class GenerateAndBuild(build_py):
    def run(self):
        super().run()
        from generate import generate

        generate(pathlib.Path(self.build_lib))


setup(cmdclass={"build_py": GenerateAndBuild})
