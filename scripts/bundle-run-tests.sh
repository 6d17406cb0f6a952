#!/usr/bin/env bash
# Unpacks the bundle into a temporary folder, runs its tests there and removes it. Options are those of the bundle's own
# run-tests.sh: [--gpu | --no-gpu] [--timeout SECONDS] [NAME...]
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$here/unpack.sh" "$folder"
"$folder/run-tests.sh" "$@"
