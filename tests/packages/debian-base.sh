#!/usr/bin/env bash
# Makes a root file system with the essential packages of a distribution, unless it already exists, and prints its path.
#
#   tests/packages/debian-base.sh FOLDER          as root
#
# SUITE, MIRROR and DEBOOTSTRAP_OPTIONS choose another distribution than Debian 12; see try-packages.sh. To get a newer
# root file system, remove FOLDER/base-SUITE.
set -euo pipefail

die() {
  echo "debian-base: $*" >&2
  exit 1
}
[ $# = 1 ] || die "usage: tests/packages/debian-base.sh FOLDER"
[ "$(id -u)" = 0 ] || die "debootstrap needs root"
command -v debootstrap >/dev/null || die "debootstrap is not installed"
folder=$1
suite=${SUITE:-bookworm}
read -ra options <<<"${DEBOOTSTRAP_OPTIONS:-}"
if ! [ -d "$folder/base-$suite" ]; then
  mkdir -p "$folder"
  rm -rf "$folder/base.new"
  debootstrap --variant=minbase --include=ca-certificates "${options[@]}" "$suite" "$folder/base.new" \
    "${MIRROR:-http://deb.debian.org/debian}" >"$folder/debootstrap.log" ||
    { tail -20 "$folder/debootstrap.log" >&2; die "debootstrap failed"; }
  mv "$folder/base.new" "$folder/base-$suite"
fi
echo "$folder/base-$suite"
