"""Tests the sdist and the wheel of client/python. Builds them from a copy of the sources, and installs them into new
environments of all Pythons on this machine, with the oldest and the newest grpcio and protobuf. Then runs them in
another folder with a real server.

python packaging_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

import numpy as np

from client_fixture import TESTS, RealServerTest, main

ROOT = TESTS.parent
UV = pathlib.Path(sys.executable).with_name("uv")
URL = "https://example.org/maxsim"
# The oldest versions that pyproject.toml allows. NumPy and grpcio have wheels of these for Python 3.10 and 3.11.
OLDEST = ["grpcio==1.49.1", "protobuf==4.25.0"]
OLDEST_NUMPY = {"3.10": "numpy==1.22.0", "3.11": "numpy==1.23.2"}
# Prints what a user of the installed package sees.
USE = """
import asyncio, json, sys, warnings
import google.protobuf, grpc, numpy as np
import maxsim, maxsim.v1.rerank_pb2, maxsim.v1.admin_pb2_grpc, maxsim.v1.documents_pb2_grpc, maxsim_encoder
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import maxsim_client

query = np.load("query.npy")
with maxsim.Client(sys.argv[1]) as client:
    ids = client.rerank("text", query, top_k=5, payloads=True).ids
    streamed = [answer.ranking.ids for answer in client.rerank_stream([maxsim.Request("text", query, top_k=5)] * 3)]
    try:
        client.rerank("text", query, weights=[1.0])
    except maxsim.errors.InvalidArgument as error:
        field = error.field
    try:
        client.rerank("nowhere", query)
    except grpc.RpcError as error:
        code = error.code().name

async def ask():
    async with maxsim.AsyncClient(sys.argv[1], client_id="shop") as client:
        return (await client.collection("text").rerank(query, top_k=5)).ids

print(json.dumps({
    "ids": ids, "streamed": streamed, "async": asyncio.run(ask()), "field": field, "code": code,
    "file": maxsim.__file__, "version": maxsim.__version__, "alias": maxsim_client.Client is maxsim.Client,
    "grpcio": grpc.__version__, "protobuf": google.protobuf.__version__, "numpy": np.__version__,
}))
"""


def find_pythons():
    """Returns the paths of Pythons by version: those on the PATH that work, and those of pyenv."""
    found = {}
    for version in ("3.10", "3.11", "3.12", "3.13"):
        roots = [os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv")]
        installed = [
            str(path) for root in roots if root for path in pathlib.Path(root).glob(f"versions/{version}.*/bin/python")
        ]
        for program in [shutil.which(f"python{version}"), *installed]:
            if program and subprocess.run([program, "-c", ""], capture_output=True).returncode == 0:
                found.setdefault(version, program)
    return found


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class PackagingTest(RealServerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        clone = cls.folder / "clone"
        generated = shutil.ignore_patterns("v1", "build", "*.egg-info", "__pycache__")
        shutil.copytree(ROOT / "client" / "python", clone / "client" / "python", ignore=generated)
        shutil.copytree(ROOT / "proto", clone / "proto")
        (clone / "demo").mkdir()
        shutil.copy(ROOT / "demo" / "projection.npy", clone / "demo")
        environment = dict(os.environ, MAXSIM_PROJECT_URL=URL)
        run(UV, "build", clone / "client" / "python", "-o", cls.folder / "dist", "-p", sys.executable, env=environment)
        # The installed package must not need the sources.
        shutil.rmtree(clone)
        (cls.sdist,) = (cls.folder / "dist").glob("*.tar.gz")
        (cls.wheel,) = (cls.folder / "dist").glob("*.whl")
        cls.pythons = find_pythons()
        scores, _ = cls.text.scores(cls.queries[1])
        cls.best = [cls.text.ids[o] for o in np.argsort(-scores, kind="stable")[:5]]

    def check(self, version, distribution, *packages, **wanted):
        """Installs the distribution into a new environment, and calls the server from an empty folder. If `packages` or
        `wanted` require certain versions, uses uv, which takes a fifth of pip's time. Otherwise uses pip."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        np.save(folder / "query.npy", self.queries[1])
        run(UV, "venv", "-q", "--seed", "-p", self.pythons[version], folder / "venv")
        python = folder / "venv" / "bin" / "python"
        if packages:
            run(UV, "pip", "install", "-q", "-p", python, distribution, *packages)
        else:
            run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", distribution)
        seen = json.loads(run(python, "-c", USE, self.server.address, cwd=folder))
        self.assertEqual((seen["ids"], seen["async"], seen["streamed"]), (self.best, self.best, [self.best] * 3))
        self.assertEqual((seen["field"], seen["code"], seen["alias"]), ("queries[0].weights", "NOT_FOUND", True))
        self.assertTrue(seen["file"].startswith(str(folder)), seen["file"])
        self.assertIn(f"-{seen['version']}", self.wheel.name)
        for package, number in wanted.items():
            self.assertRegex(seen[package], rf"^{re.escape(number)}")
        for program in ("maxsim-encoder", "maxsim-mcp"):
            run(folder / "venv" / "bin" / program, "--help")
        # The package mcp is an extra, which is not installed here.
        done = subprocess.run([folder / "venv" / "bin" / "maxsim-mcp"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^maxsim-mcp: the package mcp, version 2 or later, is missing .*\n$")
        versions = ", ".join(f"{package} {seen[package]}" for package in ("grpcio", "protobuf", "numpy"))
        print(f"Python {version}: {distribution.name}, {versions}")

    def test_the_wheel_works_with_the_oldest_packages(self):
        version = "3.10" if "3.10" in self.pythons else "3.11"
        self.check(version, self.wheel, *OLDEST, OLDEST_NUMPY[version], grpcio="1.49.1", protobuf="4.25.0")

    def test_the_wheel_works_with_the_newest_packages(self):
        version = "3.13" if "3.13" in self.pythons else "3.11"
        self.check(version, self.wheel)

    def test_the_sdist_works_with_the_newest_packages(self):
        version = "3.13" if "3.13" in self.pythons else "3.11"
        self.check(version, self.sdist)

    def test_the_sdist_works_with_the_oldest_packages(self):
        self.check("3.11", self.sdist, *OLDEST, OLDEST_NUMPY["3.11"], grpcio="1.49.1", protobuf="4.25.0")

    def test_both_carry_what_they_should(self):
        with tarfile.open(self.sdist) as file:
            names = {name.split("/", 1)[1] for name in file.getnames() if "/" in name}
        for name in (
            "LICENSE",
            "README.md",
            "generate.py",
            "stub_writer.py",
            "proto/maxsim/v1/rerank.proto",
            "maxsim/py.typed",
        ):
            self.assertIn(name, names)
        self.assertFalse([name for name in names if name.startswith("maxsim/v1")])
        with zipfile.ZipFile(self.wheel) as file:
            names = file.namelist()
            (metadata,) = (file.read(name).decode() for name in names if name.endswith("/METADATA"))
            self.assertEqual(
                [file.read(name) for name in names if name.endswith("/LICENSE")], [(ROOT / "LICENSE").read_bytes()]
            )
        for name in (
            "maxsim/py.typed",
            "maxsim/v1/rerank_pb2.py",
            "maxsim/v1/rerank_pb2.pyi",
            "maxsim_encoder/projection.npy",
        ):
            self.assertIn(name, names)
        for line in (
            "Name: maxsim",
            "License-Expression: Apache-2.0",
            f"Project-URL: Source, {URL}",
            "Requires-Python: >=3.10",
        ):
            self.assertIn(line, metadata.splitlines())
        for requirement in OLDEST:
            name, version = requirement.split("==")
            self.assertIn(
                version.removesuffix(".0"), re.search(rf"^Requires-Dist: {name}>=(\S+)$", metadata, re.MULTILINE)[1]
            )


if __name__ == "__main__":
    main()
