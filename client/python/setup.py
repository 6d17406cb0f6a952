"""Adds files from outside this folder to the sdist and the wheel: the .proto files, the modules that generate.py makes
from them, the demo encoder's projection, and the address of the repository. Everything else is in pyproject.toml."""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import generate  # noqa: E402


def find_projection():
    """Returns the path of the projection, in an sdist or in the repository."""
    for path in (HERE / "maxsim_encoder" / "projection.npy", HERE.parents[1] / "demo" / "projection.npy"):
        if path.exists():
            return path
    return None


URL_FILE = "repository.txt"


def find_url():
    """Returns the address at which users find the sources: $MAXSIM_PROJECT_URL or, if that is not set, the address in
    the sdist or the clone's origin. Returns "" if there is none, or if it is not an https address."""
    url = os.environ.get("MAXSIM_PROJECT_URL", "")
    if not url and (HERE / URL_FILE).exists():
        url = (HERE / URL_FILE).read_text(encoding="utf-8").strip()
    if not url and (HERE.parents[1] / ".git").exists():
        try:
            command = ["git", "-C", str(HERE), "remote", "get-url", "origin"]
            url = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
        except OSError:
            pass
    return url.removesuffix(".git") if url.startswith("https://") and "@" not in url else ""


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
        if find_url():
            (pathlib.Path(base_dir) / URL_FILE).write_text(find_url() + "\n", encoding="utf-8")


urls = {"Source": find_url(), "Changelog": f"{find_url()}/blob/main/CHANGELOG.md"} if find_url() else {}
setup(project_urls=urls, cmdclass={"build_py": BuildWithStubs, "sdist": SdistWithProtos})
