#!/bin/sh
# Compiles the Go client's driver of the conformance suite (docs/internals/conformance.md), and runs it.
#
#   run.sh FOLDER SERVER=GRPC_ADDRESS,HTTP_URL...      FOLDER: for the program and Go's cache
set -eu
folder=$1
shift
mkdir -p "$folder"
"$(dirname "$0")/../../../support/go.sh" "$folder" build "$folder/driver" tests/conformance/drivers/go >&2
exec "$folder/driver" "$@"
