#!/bin/sh
# Runs a Python program in a virtual environment of its own, made with $MAXSIM_PYTHON (default: python3) from the packages
# of a requirements file and nothing that they ask for. The environment is kept in the folder VENV and made again when the
# requirements change.
#
#   run_venv_test.sh VENV REQUIREMENTS.txt PROGRAM.py ARGUMENTS...
#
# Exits with 77, which CTest takes as "skipped", where the packages cannot be had. With MAXSIM_REQUIRE_PYTHON_PACKAGES=1,
# as in CI, that is a failure.
set -eu
python=${MAXSIM_PYTHON:-python3}
venv=$1
requirements=$2
shift 2

unavailable() {
  if [ "${MAXSIM_REQUIRE_PYTHON_PACKAGES:-0}" = 1 ]; then
    echo "failed: $*" >&2
    exit 1
  fi
  echo "skipped: $*"
  exit 77
}

# What the environment is made of decides whether one that is there will do.
wanted=$("$python" -c 'import sys; print(sys.version)' 2>/dev/null && cat "$requirements") ||
  unavailable "there is no $python (MAXSIM_PYTHON names another)"
# Tests that share the environment run side by side, and one of them makes it.
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
if [ "$(cat "$venv/made-of" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$venv"
  "$python" -m venv "$venv" >/dev/null 2>&1 || unavailable "$python cannot make a virtual environment (python3-venv)"
  log=$("$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$requirements" 2>&1) ||
    unavailable "pip cannot install $requirements: $(echo "$log" | tail -n 1)"
  echo "$wanted" >"$venv/made-of"
fi
exec 9>&-
exec "$venv/bin/python" -B "$@"
