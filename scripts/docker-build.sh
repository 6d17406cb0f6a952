#!/usr/bin/env bash
# Builds the image maxsim:latest, or with 0 the CPU image maxsim:cpu, with docker, podman or buildah.
#
#   scripts/docker-build.sh [auto|1|0] [BUILD OPTION...]
#
# Takes the first of these programs that is installed, or the one that BUILDER names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cuda=${1:-auto}
[ $# -eq 0 ] || shift
options=(--build-arg "COMMIT=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)")
case "$cuda" in
  auto | 1) options+=(-t maxsim:latest) ;;
  0) options+=(-t maxsim:cpu --build-arg CUDA=OFF --build-arg BUILD_BASE=debian:12 --build-arg RUNTIME_BASE=debian:12-slim) ;;
  *)
    echo "docker-build: '$cuda' must be auto, 1 or 0" >&2
    exit 1
    ;;
esac
builder=
for tool in ${BUILDER:-docker podman buildah}; do
  if command -v "$tool" >/dev/null; then
    builder=$tool
    break
  fi
done
# The format of podman and buildah is OCI by default, which has no health check.
case "$builder" in
  "")
    echo "docker-build: ${BUILDER:-docker, podman or buildah} is needed" >&2
    exit 1
    ;;
  docker) ;;
  *) options+=(--format docker) ;;
esac
exec "$builder" build "${options[@]}" "$@" .
