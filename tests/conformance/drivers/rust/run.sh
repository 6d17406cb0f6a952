#!/bin/sh
# Compiles and runs the Rust driver of the conformance suite (docs/internals/conformance.md).
#
#   run.sh FOLDER SERVER=GRPC_ADDRESS,HTTP_URL...      FOLDER keeps the program and Cargo's build results
set -eu
folder=$1
shift
mkdir -p "$folder"
"$(dirname "$0")/../../../support/rust.sh" "$folder" build "$folder/driver" >&2
exec "$folder/driver" "$@"
