#!/bin/sh
# Runs python_client_test.py with $MAXSIM_PYTHON (default: python3). Exits with 77, which CTest takes as "skipped", when
# that Python lacks grpcio, grpcio-tools or numpy.
#
#   python_client_test.sh FOLDER_OF_THE_PROGRAMS
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
exec "$python" "$here/python_client_test.py" "$@"
