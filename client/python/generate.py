"""Generates the maxsim.v1 messages and stubs from proto/ with grpcio-tools.

    python generate.py [TARGET_FOLDER]

Writes TARGET_FOLDER/maxsim/v1/*_pb2.py and *_pb2_grpc.py (by default beside this file: `maxsim/` next to
`maxsim_client/`). The protobuf and grpcio installed where they are used must not be older than those that made them:
runtime_requirements() says which these are.
"""

import pathlib
import re
import sys
from importlib import metadata
from typing import List

PROTOS = ["maxsim/v1/rerank.proto", "maxsim/v1/admin.proto"]


def find_protos() -> pathlib.Path:
    """The repository's proto/, or the copy that lies beside this file."""
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here / "proto", here.parents[1] / "proto"):
        if (folder / PROTOS[0]).exists():
            return folder
    raise SystemExit(f"no {PROTOS[0]} in {here / 'proto'} or {here.parents[1] / 'proto'}")


def generate(target: pathlib.Path) -> None:
    from grpc_tools import protoc

    target.mkdir(parents=True, exist_ok=True)
    folder = find_protos()
    arguments = ["protoc", f"-I{folder}", f"--python_out={target}", f"--grpc_python_out={target}", *PROTOS]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed")


def runtime_requirements() -> List[str]:
    """What the generated files need to be imported, as requirements for pip.

    The stubs of a grpcio-tools are refused by an older grpcio and an older protobuf. It requires of both, for itself,
    at least what its stubs do. Of protobuf the next major release takes them too, and the one after it may not."""
    minimum = {}
    for requirement in metadata.requires("grpcio-tools") or []:
        parsed = re.match(r"(grpcio|protobuf)(?![\w-])[^;]*?>=\s*([\w.]+)", requirement)
        if parsed:
            minimum[parsed[1]] = parsed[2]
    # A distribution's package leaves that to the distribution: what is installed beside it fits.
    for missing in {"grpcio", "protobuf"} - minimum.keys():
        minimum[missing] = metadata.version(missing)
    too_new = int(minimum["protobuf"].split(".")[0]) + 2
    return [f"grpcio>={minimum['grpcio']}", f"protobuf>={minimum['protobuf']},<{too_new}"]


if __name__ == "__main__":
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        raise SystemExit(__doc__)
    generate(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent)
