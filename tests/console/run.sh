#!/usr/bin/env bash
# Runs console_test.py with Chromium, against servers and an encoder of its own.
#
#   run.sh FOLDER_OF_THE_PROGRAMS ENCODER_VENV [ARGUMENTS of console_test.py...]
#
# Exits with 77, which CTest takes as "skipped", where install.sh does.
set -euo pipefail

programs=$(realpath "$1")
venv=$2
shift 2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
encoder_python=$("$here/install.sh" "$venv") || {
  code=$?
  echo "$encoder_python"
  exit "$code"
}
exec /usr/bin/python3 -B "$here/console_test.py" --bin "$programs" --encoder-python "$encoder_python" "$@"
