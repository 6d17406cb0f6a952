#!/usr/bin/env bash
# Runs console_test.py with Chromium, against servers and an encoder of its own.
#
#   run.sh FOLDER_OF_THE_PROGRAMS ENCODER_VENV [ARGUMENTS of console_test.py...]
#
# ENCODER_VENV is made where it is not there (tests/support/run_venv_test.sh). Exits with 77, which CTest takes as
# "skipped", where a package is missing. With MAXSIM_REQUIRE_PYTHON_PACKAGES=1, as in CI, the distribution's packages are
# installed by root, and one that is still missing is a failure.
set -euo pipefail

programs=$(realpath "$1")
venv=$2
shift 2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
requirements=$root/demo/requirements.txt
required=${MAXSIM_REQUIRE_PYTHON_PACKAGES:-0}
# The distribution's Selenium is that of the distribution's Python.
python=/usr/bin/python3

unavailable() {
  if [ "$required" = 1 ]; then
    echo "failed: $*" >&2
    exit 1
  fi
  echo "skipped: $*"
  exit 77
}

has_browser() {
  command -v chromium >/dev/null && command -v chromedriver >/dev/null && "$python" -c 'import selenium' 2>/dev/null
}

if ! has_browser && [ "$required" = 1 ] && [ "$(id -u)" = 0 ]; then
  "$root/scripts/setup.sh" browser
fi
has_browser || unavailable "there is no Chromium with its driver and Selenium (scripts/setup.sh browser installs them)"
encoder_python=$("$root/tests/support/run_venv_test.sh" "$venv" "$requirements" -c 'import sys; print(sys.executable)') ||
  unavailable "the encoder's packages cannot be installed: $encoder_python"

exec "$python" -B "$root/tests/console/console_test.py" --bin "$programs" --encoder-python "$encoder_python" "$@"
