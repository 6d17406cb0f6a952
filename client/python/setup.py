"""Adds to sdist and wheel what is not in this folder: the .proto files, what generate.py makes of them, and the demo
encoder's projection. Everything else is in pyproject.toml."""

import pathlib
import shutil
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import generate  # noqa: E402


def find_projection():
    """The projection in the repository, or in an sdist."""
    for path in (HERE / "maxsim_encoder" / "projection.npy", HERE.parents[1] / "demo" / "projection.npy"):
        if path.exists():
            return path
    return None


class BuildWithStubs(build_py):
    def run(self):
        super().run()
        if self.editable_mode:
            generate.generate(HERE)
            return
        generate.generate(pathlib.Path(self.build_lib))
        projection = find_projection()
        if projection:
            shutil.copy(projection, pathlib.Path(self.build_lib) / "maxsim_encoder")


class SdistWithProtos(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in generate.PROTOS:
            target = pathlib.Path(base_dir) / "proto" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(generate.find_protos() / name, target)
        projection = find_projection()
        if projection:
            shutil.copy(projection, pathlib.Path(base_dir) / "maxsim_encoder")


setup(cmdclass={"build_py": BuildWithStubs, "sdist": SdistWithProtos})
