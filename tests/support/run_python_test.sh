#!/bin/sh
# Runs a Python program with $MAXSIM_PYTHON (default: python3). Exits with 77, which CTest takes as "skipped", when that
# Python lacks one of PACKAGES, modules between commas.
#
#   run_python_test.sh PACKAGES PROGRAM.py ARGUMENTS...
set -eu
python=${MAXSIM_PYTHON:-python3}
packages=$1
shift
if ! command -v "$python" >/dev/null; then
  echo "skipped: there is no $python (MAXSIM_PYTHON names another)"
  exit 77
fi
if ! missing=$("$python" -c "import $packages" 2>&1); then
  echo "skipped: $python lacks a package: $(echo "$missing" | tail -n 1) (MAXSIM_PYTHON names another)"
  exit 77
fi
exec "$python" -B "$@"
