#!/bin/sh
# Compiles the Rust client's driver of the conformance suite (docs/internals/conformance.md), and runs it.
#
#   run.sh FOLDER SERVER=GRPC_ADDRESS,HTTP_URL...      FOLDER: for the program and what Rust has compiled
set -eu
folder=$1
shift
mkdir -p "$folder"
"$(dirname "$0")/../../../support/rust.sh" "$folder" build "$folder/driver" >&2
exec "$folder/driver" "$@"
