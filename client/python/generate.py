"""Makes maxsim/v1 from proto/: the messages, the stubs and their types.

    python generate.py            writes maxsim/v1 of this folder; does nothing if it is up to date
    python generate.py FOLDER     writes only FOLDER/maxsim/v1

Needs grpcio-tools of any release, which parses the .proto files. This script writes the modules itself: a module that
protoc writes is refused by any protobuf or grpcio that is older than that protoc. The modules here call protobuf as
protoc's have done since 3.20, check no versions, and work with every protobuf and grpcio that pyproject.toml allows.
"""

import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = ["maxsim/v1/rerank.proto", "maxsim/v1/admin.proto", "maxsim/v1/documents.proto"]
STAMP = "made-of.txt"


def find_protos() -> pathlib.Path:
    """Returns the repository's proto/, or the copy that lies beside this file in an sdist."""
    for folder in (HERE / "proto", HERE.parents[1] / "proto"):
        if (folder / PROTOS[0]).exists():
            return folder
    raise SystemExit(f"no {PROTOS[0]} in {HERE / 'proto'} or {HERE.parents[1] / 'proto'}")


def generate(target: pathlib.Path) -> None:
    """Writes target/maxsim/v1. Each file is replaced atomically: a program that imports it meanwhile gets the old or
    the new file."""
    sys.path.insert(0, str(HERE))
    import stub_writer

    package = target / "maxsim" / "v1"
    package.mkdir(parents=True, exist_ok=True)
    files = stub_writer.modules(descriptor_set())
    files["__init__.py"] = '"""The wire contract of maxsimd: messages and stubs, generated from proto/maxsim/v1."""\n'
    files[STAMP] = fingerprint()
    for name, text in files.items():
        handle, temporary = tempfile.mkstemp(dir=package, prefix=f".{name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, package / name)


def descriptor_set() -> bytes:
    """Returns a serialized google.protobuf.FileDescriptorSet of PROTOS. Runs protoc in another process, because it
    writes to standard error and keeps state."""
    with tempfile.TemporaryDirectory(prefix="maxsim-protoc-") as folder:
        output = pathlib.Path(folder) / "set"
        arguments = [f"-I{find_protos()}", f"--descriptor_set_out={output}", *PROTOS]
        done = subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], check=False)
        if done.returncode != 0:
            raise SystemExit("protoc failed")
        return output.read_bytes()


def fingerprint() -> str:
    """Returns a hash of the inputs of the modules."""
    digest = hashlib.sha256()
    for path in [*(find_protos() / name for name in PROTOS), HERE / "generate.py", HERE / "stub_writer.py"]:
        digest.update(path.read_bytes())
    return digest.hexdigest() + "\n"


def is_up_to_date(target: pathlib.Path) -> bool:
    stamp = target / "maxsim" / "v1" / STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8") == fingerprint()


def main() -> None:
    if len(sys.argv) > 2 or any(argument.startswith("-") for argument in sys.argv[1:]):
        raise SystemExit(__doc__)
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    if is_up_to_date(target):
        return
    if importlib.util.find_spec("grpc_tools") is None:
        raise SystemExit(f"{sys.executable} lacks grpcio-tools, which {target / 'maxsim' / 'v1'} is made with")
    generate(target)


if __name__ == "__main__":
    main()
