"""Generates the maxsim.v1 messages and stubs from proto/ with grpcio-tools.

    python generate.py [TARGET_FOLDER]

Writes TARGET_FOLDER/maxsim/v1/*_pb2.py and *_pb2_grpc.py (by default beside this file: `maxsim/` next to
`maxsim_client/`). The protobuf version installed where they are used must not be older than the one that made them.
"""

import pathlib
import sys

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


if __name__ == "__main__":
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        raise SystemExit(__doc__)
    generate(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent)
