"""`python -m maxsim_mcp` is the program `maxsim-mcp`."""

import sys

from maxsim_mcp.cli import main

sys.exit(main())
