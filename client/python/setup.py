"""Adds to the wheel the generated messages, what they need of protobuf and grpcio, and the demo encoder's projection;
everything else is in pyproject.toml."""

import pathlib
import shutil
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from generate import generate, runtime_requirements  # noqa: E402


class GenerateAndBuild(build_py):
    def run(self):
        super().run()
        generate(pathlib.Path(self.build_lib))
        projection = pathlib.Path(__file__).resolve().parents[2] / "demo" / "projection.npy"
        if projection.exists():
            shutil.copy(projection, pathlib.Path(self.build_lib) / "maxsim_encoder")


setup(cmdclass={"build_py": GenerateAndBuild}, install_requires=["numpy>=1.24", *runtime_requirements()])
