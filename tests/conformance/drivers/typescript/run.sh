#!/bin/sh
# Compiles the TypeScript client, and runs the driver of the conformance suite (docs/internals/conformance.md).
#
#   run.sh FOLDER SERVER=GRPC_ADDRESS,HTTP_URL...      FOLDER keeps the compiled client
set -eu
folder=$1
shift
here=$(dirname "$0")
package=$here/../../../../client/typescript
mkdir -p "$folder"
cp "$package/package.json" "$folder" # says that the compiled files are ES modules
tsc -p "$package" --outDir "$folder/dist" >&2
exec node "$here/driver.mjs" "$folder/dist" "$@"
