"""Adds the generated messages to the wheel, and what they need of protobuf and grpcio; everything else is in
pyproject.toml."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from generate import generate, runtime_requirements  # noqa: E402


class GenerateAndBuild(build_py):
    def run(self):
        super().run()
        generate(pathlib.Path(self.build_lib))


setup(cmdclass={"build_py": GenerateAndBuild}, install_requires=["numpy>=1.24", *runtime_requirements()])
