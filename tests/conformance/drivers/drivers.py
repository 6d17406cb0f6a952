"""The drivers of the clients, by name."""

import dataclasses
import pathlib
import shlex
import sys

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Driver:
    """`command` is followed by the servers' addresses. A `transport` of "http" reads the names of an error's fields as
    the HTTP API has them."""

    name: str
    command: list
    transport: str = "grpc"


# Drivers that are scripts of this folder. Other drivers are named with their command: --driver cpp=PROGRAM.
SCRIPTS = {
    "python": [sys.executable, "-B", HERE / "python_client.py"],
    "python_asyncio": [sys.executable, "-B", HERE / "python_client.py", "--asyncio"],
    "http": [sys.executable, "-B", HERE / "http_requests.py"],
}
# The drivers that speak HTTP; the others speak gRPC.
OVER_HTTP = {"http", "typescript"}


def choose(names):
    """Returns the drivers of --driver, or those that need no program if there is none."""
    chosen = []
    for given in names or SCRIPTS:
        name, _, program = given.partition("=")
        if not program and name not in SCRIPTS:
            sys.exit(f"--driver {name}: give its command, --driver {name}=COMMAND; without one: {', '.join(SCRIPTS)}")
        command = shlex.split(program) if program else SCRIPTS[name]
        chosen.append(Driver(name, command, "http" if name in OVER_HTTP else "grpc"))
    return chosen
