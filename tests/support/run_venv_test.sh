#!/bin/sh
# Runs a Python program in a virtual environment of its own, made with $MAXSIM_PYTHON (default: python3) from the packages
# of a requirements file. The environment is kept in the folder VENV and made again when the requirements change.
#
#   run_venv_test.sh VENV REQUIREMENTS.txt PROGRAM.py ARGUMENTS...
#
# pip installs what the file names and nothing that these packages ask for, and compiles nothing (see the end). Where
# the file has a line
#
#   # install-with: uv==VERSION
#
# uv of that version installs them with all that they ask for; its cache makes an environment with PyTorch a matter of
# seconds where one was made before. A file beside it, named as the requirements with `.overrides.txt` in place of
# `.txt`, replaces what packages ask for (uv's --override). These are gigabytes: an environment that is not there yet is
# made with MAXSIM_INSTALL_EXAMPLES=1 or MAXSIM_REQUIRE_PYTHON_PACKAGES=1, and the test is skipped without both.
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
overrides=${requirements%.txt}.overrides.txt
if [ ! -e "$overrides" ]; then overrides=/dev/null; fi
wanted=$("$python" -c 'import sys; print(sys.version)' 2>/dev/null && cat "$requirements" "$overrides") ||
  unavailable "there is no $python (MAXSIM_PYTHON names another)"
uv=$(sed -n 's/^# install-with: *\(uv==[0-9.]*\) *$/\1/p' "$requirements")
# Tests that share the environment run side by side, and one of them makes it.
mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
if [ "$(cat "$venv/made-of" 2>/dev/null)" != "$wanted" ]; then
  if [ -n "$uv" ] && [ "${MAXSIM_INSTALL_EXAMPLES:-0}" != 1 ] && [ "${MAXSIM_REQUIRE_PYTHON_PACKAGES:-0}" != 1 ]; then
    unavailable "$requirements has large packages, which MAXSIM_INSTALL_EXAMPLES=1 downloads"
  fi
  rm -rf "$venv"
  "$python" -m venv "$venv" >/dev/null 2>&1 || unavailable "$python cannot make a virtual environment (python3-venv)"
  if [ -n "$uv" ]; then
    log=$("$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile "$uv" 2>&1) ||
      unavailable "pip cannot install $uv: $(echo "$log" | tail -n 1)"
    log=$("$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --override "$overrides" -r "$requirements" 2>&1) ||
      unavailable "uv cannot install $requirements: $(echo "$log" | tail -n 1)"
  else
    log=$("$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --no-deps -r "$requirements" 2>&1) ||
      unavailable "pip cannot install $requirements: $(echo "$log" | tail -n 1)"
  fi
  echo "$wanted" >"$venv/made-of"
fi
exec 9>&-
# Compiling PyTorch and what is around it takes longer than most tests: what one process compiled the others read, those
# that a test starts too. Nothing is written beside the sources.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$venv/compiled"
exec "$venv/bin/python" "$@"
