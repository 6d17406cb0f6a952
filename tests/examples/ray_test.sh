#!/bin/sh
# Runs Python in a virtual environment with Ray, with MAXSIM_INSTALL_EXAMPLES=1 or MAXSIM_REQUIRE_PYTHON_PACKAGES=1.
# Without both it downloads nothing and exits with 77, which CTest takes as "skipped".
#
#   ray_test.sh VENV ARGUMENTS_OF_PYTHON...
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ "${MAXSIM_INSTALL_EXAMPLES:-0}" != 1 ] && [ "${MAXSIM_REQUIRE_PYTHON_PACKAGES:-0}" != 1 ]; then
  echo "skipped: Ray and Arrow are 150 MB of packages, which MAXSIM_INSTALL_EXAMPLES=1 downloads"
  exit 77
fi
# Ray gives its first server half a minute to start, which a busy machine may take to read it from the disk.
export RAY_gcs_server_port_wait_time_s=180
venv=$1
shift
exec "$root/tests/support/run_venv_test.sh" "$venv" "$root/examples/ray/requirements.txt" "$@"
