#!/usr/bin/env bash
# Fills a folder with Debian's arm64 libraries and headers, for cross-compiling (cmake/arm64.cmake) and for running the
# result under qemu. Needs no root, and changes nothing of this machine's own packages: apt keeps its state in the folder.
#
#   scripts/arm64-sysroot.sh [FOLDER]      default: build/arm64-sysroot (75 MB to download, 450 MB on disk)
#
# The packages are the libraries (-dev) of [build] in deploy/apt-packages.txt with all that they depend on, from the
# release of Debian that runs here, because the cross compiler must match its C library. MAXSIM_DEBIAN_MIRROR=URL takes them
# from another mirror, which must have the security updates at URL-security. A folder that was made from the same release and
# list of packages is left as it is. Remove it to get newer versions of the packages.
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

# shellcheck disable=SC1091 # the file of this machine
release=$(. /etc/os-release && [ "${ID:-}" = debian ] && echo "${VERSION_CODENAME:-}") || true
[ -n "$release" ] || die "cross-compiling works only on a release of Debian, and this machine does not run one"
mapfile -t packages < <(scripts/setup.sh --print build | sed 's/ *|.*//' | grep -e '-dev$')
packages+=(libc6-dev libstdc++6)
made_from="$release ${packages[*]}"
[ "$(cat "$target/.complete" 2>/dev/null)" = "$made_from" ] && exit 0
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$keys" ] || die "$keys is not there: apt-get install debian-archive-keyring"

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
  -o APT::Sandbox::User= -o APT::Install-Recommends=0
  # Makes apt fail if it cannot download a package list. By default it only warns, and leaves out security updates.
  -o APT::Update::Error-Mode=any)
echo "arm64-sysroot: Debian $release for arm64 in $target"
"${apt[@]}" update || die "cannot read the package lists of $mirror and $security"
"${apt[@]}" install -y --download-only "${packages[@]}" || die "cannot download the packages"

# On a Debian system, /bin, /lib and /sbin are links into /usr. With the same links here, the files that a package has in
# /lib are unpacked into usr/lib.
for name in bin lib sbin; do ln -s "usr/$name" "$staging/root/$name"; done
# make-deb.sh and licences.py ask dpkg which package a library belongs to, and what a program that links it depends on
# (shlibs). So the folder gets a database of dpkg, which calls the packages installed although no script of theirs has run.
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
echo "$made_from" >"$staging/root/.complete"
chmod 755 "$staging/root"
rm -rf "$target"
mv "$staging/root" "$target"
echo "arm64-sysroot: $(find "$target" -name '*.so.*' | wc -l) shared libraries, $(du -sh "$target" | cut -f1)"
