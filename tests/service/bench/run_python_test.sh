#!/bin/sh
# Runs a test of this folder with $MAXSIM_PYTHON (default: python3). Exits with 77, which CTest takes as "skipped", when
# that Python lacks a package that the test needs.
#
#   run_python_test.sh TEST.py FOLDER_OF_THE_PROGRAMS
set -eu
here=$(cd "$(dirname "$0")" && pwd)
python=${MAXSIM_PYTHON:-python3}
test=$1
shift
case $test in
  baseline_test.py) packages='grpc, grpc_tools, numpy, torch' ;;
  *) packages='numpy' ;;
esac
if ! command -v "$python" >/dev/null; then
  echo "skipped: there is no $python (MAXSIM_PYTHON names another)"
  exit 77
fi
if ! missing=$("$python" -c "import $packages" 2>&1); then
  echo "skipped: $python lacks a package: $(echo "$missing" | tail -n 1) (MAXSIM_PYTHON names another)"
  exit 77
fi
exec "$python" "$here/$test" "$@"
