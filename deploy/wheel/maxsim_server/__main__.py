"""python -m maxsim_server [configuration|licences|maxsimd|maxsimctl|maxsim-shard|maxsim-loadtest]

Prints the path of one file of the package, or the paths of all."""

import sys

from . import PROGRAMS, configuration, licences, program


def main() -> int:
    paths = {name: program(name) for name in PROGRAMS}
    paths["configuration"] = configuration()
    paths["licences"] = licences()
    if len(sys.argv) == 1:
        for name, path in paths.items():
            print(f"{name:<16} {path}")
        return 0
    if len(sys.argv) != 2 or sys.argv[1] not in paths:
        print(__doc__, file=sys.stderr)
        return 2
    print(paths[sys.argv[1]])
    return 0


sys.exit(main())
