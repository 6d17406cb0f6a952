#!/usr/bin/env bash
# Builds packages for `pip install`: the wheels maxsim-server and maxsim-torch from a build folder, the sdist of
# client/python, and from this sdist a wheel.
#
#   scripts/packages/make-wheels.sh BUILD_FOLDER TARGET_FOLDER
#
# The package of client/python is built with PyPI's `build`, in a virtual environment that is kept beside TARGET_FOLDER.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ $# != 2 ] || [ "${1#-}" != "$1" ]; then
  echo "usage: scripts/packages/make-wheels.sh BUILD_FOLDER TARGET_FOLDER" >&2
  exit 1
fi
target=${2%/}
python=${MAXSIM_PYTHON:-/usr/bin/python3}
mkdir -p "$target"
"$python" -B scripts/packages/server_wheel.py "$1" "$target"
"$python" -B scripts/packages/torch_wheel.py "$1" "$target"

venv=$target-venv
[ -x "$venv/bin/pyproject-build" ] ||
  { "$python" -m venv --clear "$venv" && "$venv/bin/pip" install --quiet --disable-pip-version-check build; }
rm -f "$target"/maxsim-*
"$venv/bin/pyproject-build" --outdir "$target" client/python >"$target-build.log" 2>&1 ||
  { cat "$target-build.log" >&2; exit 1; }
ls "$target"/maxsim-*
