#!/bin/sh
# Does what tests/support/run_venv_test.sh does, with MAXSIM_INSTALL_EXAMPLES=1 or MAXSIM_REQUIRE_PYTHON_PACKAGES=1. Without
# both it downloads nothing and exits with 77, which CTest takes as "skipped".
#
#   run_if_wanted.sh VENV REQUIREMENTS.txt PROGRAM.py ARGUMENTS...
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
if [ "${MAXSIM_INSTALL_EXAMPLES:-0}" != 1 ] && [ "${MAXSIM_REQUIRE_PYTHON_PACKAGES:-0}" != 1 ]; then
  echo "skipped: PyTorch and the frameworks are 3 GB of packages, which MAXSIM_INSTALL_EXAMPLES=1 downloads"
  exit 77
fi
exec "$root/tests/support/run_venv_test.sh" "$@"
