#!/bin/sh
# Makes a virtual environment of the packages in a requirements file, unless it is already there.
#
#   make-environment.sh VENV REQUIREMENTS.txt
#
# uv installs exactly the packages that the file names: a file has to name what its packages depend on, too. Each package
# is unpacked once for all environments, into uv's cache. MAXSIM_PYTHON names the Python (default: /usr/bin/python3).
set -eu
python=${MAXSIM_PYTHON:-/usr/bin/python3}
venv=$1
requirements=$2
folder=$(dirname "$venv")
uv_version=0.13.9
tool=$folder/uv-$uv_version

# try COMMAND...: a registry that does not answer once is asked again.
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

# An environment is made again when its packages or its Python changed.
wanted=$("$python" -c 'import sys; print(sys.version)' && cat "$requirements")
exec 9>"$venv.lock"
flock 9
if [ "$(cat "$venv/made-of" 2>/dev/null)" != "$wanted" ]; then
  "$tool/bin/uv" venv --quiet --clear --seed --python "$python" "$venv"
  try "$tool/bin/uv" pip install --quiet --no-deps --python "$venv/bin/python" -r "$requirements"
  echo "$wanted" >"$venv/made-of"
fi
