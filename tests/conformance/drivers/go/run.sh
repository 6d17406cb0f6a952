#!/bin/sh
# Compiles and runs the Go driver of the conformance suite (docs/internals/conformance.md).
#
#   run.sh FOLDER SERVER=GRPC_ADDRESS,HTTP_URL...      FOLDER keeps the program and Go's cache
set -eu
folder=$1
shift
mkdir -p "$folder"
"$(dirname "$0")/../../../support/go.sh" "$folder" build "$folder/driver" tests/conformance/drivers/go >&2
exec "$folder/driver" "$@"
