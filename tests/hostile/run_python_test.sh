#!/bin/sh
# Runs a Python program of this folder with $MAXSIM_PYTHON (default: python3). Exits with 77, which CTest takes as
# "skipped", when that Python lacks grpcio, grpcio-tools or numpy.
#
#   run_python_test.sh PROGRAM.py ARGUMENTS...
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${MAXSIM_PYTHON:-python3}
if ! command -v "$python" >/dev/null; then
  echo "skipped: there is no $python (MAXSIM_PYTHON names another)"
  exit 77
fi
if ! missing=$("$python" -c 'import grpc, grpc_tools, numpy' 2>&1); then
  echo "skipped: $python lacks a package: $(echo "$missing" | tail -n 1) (MAXSIM_PYTHON names another)"
  exit 77
fi
program=$1
shift
exec "$python" -B "$here/$program" "$@"
