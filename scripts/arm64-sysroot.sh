#!/usr/bin/env bash
# Fills a folder with Debian's arm64 libraries and headers, for cross-compiling (cmake/arm64.cmake) and for running the
# result under qemu. Needs no root, and changes nothing of this machine's own packages: apt keeps its state in the folder.
#
#   scripts/arm64-sysroot.sh [FOLDER]      default: build/arm64-sysroot (75 MB to download, 450 MB on disk)
#
# The packages are the libraries (-dev) of [build] in deploy/apt-packages.txt with all that they depend on, from the
# release of Debian that runs here, because the cross compiler must match its C library. MAXSIM_DEBIAN_MIRROR names
# another mirror. A complete folder is left as it is; remove it to make it again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
  echo "arm64-sysroot: $*" >&2
  exit 1
}
case "${1:-}" in -*) die "unknown option $1; usage: scripts/arm64-sysroot.sh [FOLDER]" ;; esac
target=${1:-build/arm64-sysroot}
mirror=${MAXSIM_DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${MAXSIM_DEBIAN_MIRROR:+$mirror-security}
security=${security:-http://deb.debian.org/debian-security}
[ -f "$target/.complete" ] && exit 0

# shellcheck disable=SC1091 # the file of this machine
release=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}") || true
[ -n "$release" ] || die "this machine does not run a release of Debian, whose arm64 libraries the folder is made of"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$keys" ] || die "$keys is not there: apt-get install debian-archive-keyring"

mapfile -t packages < <(scripts/setup.sh --print build | sed 's/ *|.*//' | grep -e '-dev$')
packages+=(libc6-dev libstdc++6)

mkdir -p "$(dirname "$target")"
staging=$(mktemp -d "$(realpath "$target").XXXXXX")
trap 'rm -rf "$staging"' EXIT
mkdir -p "$staging"/apt/{lists/partial,archives/partial,sources} "$staging"/root/usr/{bin,lib,sbin}
: >"$staging/apt/status"
for line in "$mirror $release" "$mirror $release-updates" "$security $release-security"; do
  echo "deb [arch=arm64 signed-by=$keys] $line main"
done >"$staging/apt/sources.list"

apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Architectures=arm64
  -o Dir::State="$staging/apt" -o Dir::State::status="$staging/apt/status" -o Dir::Cache="$staging/apt"
  -o Dir::Etc::sourcelist="$staging/apt/sources.list" -o Dir::Etc::sourceparts="$staging/apt/sources"
  -o APT::Sandbox::User= -o APT::Install-Recommends=0)
echo "arm64-sysroot: Debian $release for arm64 in $target"
"${apt[@]}" update || die "cannot read the package lists of $mirror"
"${apt[@]}" install -y --download-only "${packages[@]}" || die "cannot download the packages"

# The links make the packages' files in /lib arrive where all of Debian's own systems have them.
for name in bin lib sbin; do ln -s "usr/$name" "$staging/root/$name"; done
# Scripts that build packages ask dpkg which package a library belongs to, and what a program that links it depends on
# (shlibs). So the folder gets a database of dpkg, although nothing is configured.
database=$staging/root/var/lib/dpkg
mkdir -p "$database/info" "$staging/control"
echo 1 >"$database/info/format"
echo arm64 >"$database/arch"
for package in "$staging"/apt/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$package" | tar -x -C "$staging/root" --keep-directory-symlink --no-same-owner
  rm -rf "$staging"/control/*
  dpkg-deb -e "$package" "$staging/control"
  { sed '/^Package:/a Status: install ok installed' "$staging/control/control" && echo; } >>"$database/status"
  name=$(sed -n 's/^Package: //p' "$staging/control/control")
  if grep -q '^Multi-Arch: same' "$staging/control/control"; then name=$name:arm64; fi
  dpkg-deb --fsys-tarfile "$package" | tar -t | sed 's|^\.||; s|/$||; s|^$|/.|' >"$database/info/$name.list"
  if [ -f "$staging/control/shlibs" ]; then cat "$staging/control/shlibs" >>"$database/shlibs"; fi
done
# Absolute links would lead to this machine's own files.
find "$staging/root" -type l -lname '/*' -print0 | while IFS= read -r -d '' link; do
  ln -sfn --relative "$staging/root$(readlink "$link")" "$link"
done
# CMake reads here which release of Debian a package is for.
mkdir -p "$staging/root/etc"
cp /etc/os-release "$staging/root/etc/"
rm -rf "$staging"/root/usr/share/{man,locale,info,lintian}
find "$staging/root/usr/share/doc" ! -name copyright -type f -delete
date -u +%F >"$staging/root/.complete"
chmod 755 "$staging/root"
rm -rf "$target"
mv "$staging/root" "$target"
echo "arm64-sysroot: $(find "$target" -name '*.so.*' | wc -l) shared libraries, $(du -sh "$target" | cut -f1)"
