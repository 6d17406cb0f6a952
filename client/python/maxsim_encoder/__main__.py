"""Runs the server as `python -m maxsim_encoder`."""

import sys

from maxsim_encoder.cli import main

if __name__ == "__main__":
    sys.exit(main())
