#!/bin/sh
# Makes a virtual environment with the packages of a requirements file, unless it already exists.
#
#   make-environment.sh VENV REQUIREMENTS.txt
#
# uv installs exactly the packages in the file, so the file must also list their dependencies. uv's cache keeps unpacked
# packages for all environments. MAXSIM_PYTHON selects the Python (default: /usr/bin/python3).
set -eu
python=${MAXSIM_PYTHON:-/usr/bin/python3}
venv=$1
requirements=$2
folder=$(dirname "$venv")
uv_version=0.13.9
tool=$folder/uv-$uv_version

# try COMMAND...: runs a command. If it fails, repeats it up to twice, because a package registry may fail to answer.
try() {
  "$@" || { sleep 5 && "$@"; } || { sleep 20 && "$@"; }
}

mkdir -p "$folder"
exec 9>"$tool.lock"
flock 9
if [ ! -e "$tool/complete" ]; then
  rm -rf "$tool"
  "$python" -m venv "$tool"
  try "$tool/bin/pip" install --quiet --disable-pip-version-check --no-compile "uv==$uv_version"
  touch "$tool/complete"
fi
exec 9>&-

# The environment is rebuilt if its packages or its Python have changed.
wanted=$("$python" -c 'import sys; print(sys.version)' && cat "$requirements")
exec 9>"$venv.lock"
flock 9
if [ "$(cat "$venv/made-of" 2>/dev/null)" != "$wanted" ]; then
  "$tool/bin/uv" venv --quiet --clear --seed --python "$python" "$venv"
  try "$tool/bin/uv" pip install --quiet --no-deps --python "$venv/bin/python" -r "$requirements"
  echo "$wanted" >"$venv/made-of"
fi
