#!/usr/bin/env bash
# Finds what console_test.py wants, and prints the Python of the encoder's environment.
#
#   install.sh ENCODER_VENV
#
# ENCODER_VENV is made where it is not there (tests/support/run_venv_test.sh). Exits with 77, which CTest takes as
# "skipped", where a package is missing, after a line that says which. With MAXSIM_REQUIRE_PYTHON_PACKAGES=1, as in CI,
# the distribution's packages are installed by root, and one that is still missing is a failure.
set -euo pipefail

venv=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
required=${MAXSIM_REQUIRE_PYTHON_PACKAGES:-0}

unavailable() {
  if [ "$required" = 1 ]; then
    echo "failed: $*" >&2
    exit 1
  fi
  echo "skipped: $*"
  exit 77
}

# The distribution's Selenium is that of the distribution's Python.
has_browser() {
  command -v chromium >/dev/null && command -v chromedriver >/dev/null && /usr/bin/python3 -c 'import selenium' 2>/dev/null
}

if ! has_browser && [ "$required" = 1 ] && [ "$(id -u)" = 0 ]; then
  "$root/scripts/setup.sh" browser >&2
fi
has_browser || unavailable "there is no Chromium with its driver and Selenium (scripts/setup.sh browser installs them)"
encoder_python=$("$root/tests/support/run_venv_test.sh" "$venv" "$root/demo/requirements.txt" \
  -c 'import sys; print(sys.executable)') || unavailable "the encoder's packages cannot be installed: $encoder_python"
echo "$encoder_python"
