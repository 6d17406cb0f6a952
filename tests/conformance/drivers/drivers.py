"""The drivers of the clients, by name."""

import dataclasses
import pathlib
import shlex
import sys

HERE = pathlib.Path(__file__).resolve().parent


@dataclasses.dataclass(frozen=True)
class Driver:
    """A driver of the suite. The runner appends the servers' addresses to `command`. If `transport` is "http", errors
    are expected to have the HTTP API's names of fields. `left_out` are the methods to which the driver may answer
    "unsupported"."""

    name: str
    command: list
    transport: str = "grpc"
    left_out: frozenset = frozenset()


# The drivers that are scripts of this folder. Other drivers are given with their command, as --driver cpp=PROGRAM.
SCRIPTS = {
    "python": [sys.executable, "-B", HERE / "python_client.py"],
    "python_asyncio": [sys.executable, "-B", HERE / "python_client.py", "--asyncio"],
    "http": [sys.executable, "-B", HERE / "http_requests.py"],
}
# The drivers that speak HTTP; the others speak gRPC.
OVER_HTTP = {"http", "java", "rust", "typescript"}
# The methods that clients lack, by driver. The test fails if a driver answers "unsupported" to another method.
LEFT_OUT = {}


def choose(names):
    """Returns the drivers that the --driver options name. Without such options, returns the drivers that are
    scripts."""
    chosen = []
    for given in names or SCRIPTS:
        name, _, program = given.partition("=")
        if not program and name not in SCRIPTS:
            sys.exit(f"--driver {name}: give its command, --driver {name}=COMMAND; without one: {', '.join(SCRIPTS)}")
        command = shlex.split(program) if program else SCRIPTS[name]
        transport = "http" if name in OVER_HTTP else "grpc"
        chosen.append(Driver(name, command, transport, frozenset(LEFT_OUT.get(name, ()))))
    return chosen
