"""`python -m maxsim` is the program `maxsim`."""

import sys

from maxsim.command_line import main

sys.exit(main())
