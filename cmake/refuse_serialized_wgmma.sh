#!/bin/sh
# Compiler launcher of the Hopper kernels: runs the command, and fails if ptxas reports that it serialised wgmma
# (C7509 to C7519) or ignored setmaxnreg (C7504, C7508). ptxas reports this only as a remark. Such a kernel gives
# right results, but runs at a third of the speed.
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
"$@" >"$log" 2>&1
code=$?
cat "$log"
if grep -qE '\(C75[0-9][0-9]\)' "$log"; then
  echo "error: wgmma is serialised or setmaxnreg ignored, see the remark above" >&2
  exit 1
fi
exit $code
