"""Checks that generate.py writes the same output as protoc for the same files.

python stubs_test.py FOLDER_OF_THE_PROGRAMS
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from client_fixture import TESTS, RealServerTest, main

ROOT = TESTS.parent
PYTHON_CLIENT = ROOT / "client" / "python"
PROTOC = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "proto"), "--python_out=.", "--grpc_python_out=."]
PROTOS = ["maxsim/v1/rerank.proto", "maxsim/v1/admin.proto", "maxsim/v1/documents.proto"]
# This code is a copy of the code in client/python/README.md.
BARE_STUBS = """
import grpc, json, sys, numpy as np
from maxsim.v1 import rerank_pb2 as pb, rerank_pb2_grpc

query = np.load("query.npy").astype("<f4")
stub = rerank_pb2_grpc.RerankerStub(grpc.insecure_channel(sys.argv[1]))
response = stub.Rerank(pb.RerankRequest(
    collection="text",
    queries=[pb.Query(tokens=pb.TokenMatrix(
        dtype=pb.DATA_TYPE_F32, num_tokens=query.shape[0], dim=query.shape[1], data=query.tobytes()))],
    candidates=pb.Candidates(whole_collection=pb.WholeCollection()),
    top_k=5))
print(json.dumps(list(response.results[0].string_ids.ids)))
"""
BESIDE = """
import importlib.util, sys
from maxsim.v1 import admin_pb2, documents_pb2, rerank_pb2

def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module

for ours in (rerank_pb2, admin_pb2, documents_pb2):
    name = ours.__name__.rsplit(".", 1)[-1]
    theirs = load(f"{sys.argv[1]}/{name}.py", "protoc_" + name)
    assert theirs.DESCRIPTOR.serialized_pb == ours.DESCRIPTOR.serialized_pb, name
"""


class ProtocTest(RealServerTest):
    def test_stubs_of_protoc_need_no_package(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([*PROTOC, *PROTOS], cwd=folder, check=True)
            np.save(pathlib.Path(folder) / "query.npy", self.queries[1])
            command = [sys.executable, "-c", BARE_STUBS, self.server.address]
            printed = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
        scores, _ = self.text.scores(self.queries[1])
        order = np.argsort(-scores, kind="stable")[:5]
        self.assertEqual(json.loads(printed), [self.text.ids[o] for o in order])

    def test_one_process_may_load_protocs_modules_too(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([*PROTOC, *PROTOS], cwd=folder, check=True)
            subprocess.run([sys.executable, "-c", BESIDE, f"{folder}/maxsim/v1"], cwd=PYTHON_CLIENT, check=True)


class GenerateTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for name in ("generate.py", "stub_writer.py"):
            shutil.copy(PYTHON_CLIENT / name, self.folder)
        shutil.copytree(ROOT / "proto", self.folder / "proto")
        self.messages = self.folder / "maxsim" / "v1" / "rerank_pb2.py"

    def generate(self):
        subprocess.run([sys.executable, "-B", str(self.folder / "generate.py")], check=True)
        return self.messages.stat().st_mtime_ns

    def test_a_changed_proto_is_made_again_and_an_unchanged_one_is_not(self):
        first = self.generate()
        self.assertEqual(self.generate(), first)
        proto = self.folder / "proto" / "maxsim" / "v1" / "rerank.proto"
        proto.write_text(
            proto.read_text().replace("message GetInfoRequest {}", "message GetInfoRequest { bool all = 1; }")
        )
        self.assertNotEqual(self.generate(), first)
        code = "from maxsim.v1 import rerank_pb2; assert rerank_pb2.GetInfoRequest(all=True).all"
        subprocess.run([sys.executable, "-B", "-c", code], cwd=self.folder, check=True)
        types = self.messages.with_suffix(".pyi").read_text()
        self.assertIn("class GetInfoRequest(Message):\n    all: bool\n", types)

    def test_what_the_writer_does_not_know_is_an_error(self):
        proto = self.folder / "proto" / "maxsim" / "v1" / "rerank.proto"
        proto.write_text(
            proto.read_text().replace("message GetInfoRequest {}", "message GetInfoRequest { message A {} }")
        )
        done = subprocess.run([sys.executable, "-B", str(self.folder / "generate.py")], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("GetInfoRequest has a nested type", done.stderr)
        self.assertFalse(self.messages.exists())


if __name__ == "__main__":
    main()
