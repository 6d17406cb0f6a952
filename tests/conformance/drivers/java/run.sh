#!/bin/sh
# Compiles and runs the Java driver of the conformance suite (docs/internals/conformance.md).
#
#   run.sh FOLDER SERVER=GRPC_ADDRESS,HTTP_URL...      FOLDER keeps the compiled classes
set -eu
folder=$1
shift
root=$(dirname "$0")/../../../..
"$root/tests/support/javac.sh" "$folder" "$root"/client/java/src/main/java/maxsim/client/*.java "$(dirname "$0")"/*.java >&2
exec java -XX:TieredStopAtLevel=1 -cp "$folder:$("$root/tests/support/javac.sh" --class-path)" \
  maxsim.conformance.Driver "$@"
