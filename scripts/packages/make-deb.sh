#!/usr/bin/env bash
# Builds the Debian package maxsim-server from a build folder. cmake/MaxsimDebian.cmake defines the package and adds the
# programs; this script prepares all other files.
#
#   scripts/packages/make-deb.sh BUILD_FOLDER TARGET_FOLDER
#
# Prints the package's path.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() {
  echo "make-deb: $*" >&2
  exit 1
}
if [ $# != 2 ] || [ "${1#-}" != "$1" ]; then die "usage: scripts/packages/make-deb.sh BUILD_FOLDER TARGET_FOLDER"; fi
build=$(realpath "$1")
target=$2
for name in maxsimd maxsimctl maxsim-shard maxsim-loadtest; do
  [ -x "$build/bin/$name" ] || die "$build/bin/$name is not there: \`make programs\` first"
done
umask 022

# qemu runs cross-compiled programs. The packages of their libraries are in the folder of arm64-sysroot.sh.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt" 2>/dev/null || true; }
sysroot=$(cached MAXSIM_ARM64_SYSROOT)
emulator=()
if [ -n "$sysroot" ]; then
  sysroot=$(realpath "$sysroot")
  qemu=$(cached MAXSIM_QEMU_ARM64)
  [ -x "$qemu" ] || die "qemu, which runs cross-compiled programs, is not there: run scripts/setup.sh arm64"
  emulator=("$qemu" -L "$sysroot")
fi

# foreign_dependencies: prints the packages that cross-compiled programs need. For programs of this machine, CPack finds them
# in the same way. `shlibs` says which package each library belongs to. dpkg-shlibdeps does not run without a debian/control.
foreign_dependencies() {
  mkdir -p "$build/debian/shlibdeps/debian"
  printf 'Source: maxsim-server\n\nPackage: maxsim-server\nArchitecture: any\n' >"$build/debian/shlibdeps/debian/control"
  (cd "$build/debian/shlibdeps" && DEB_HOST_ARCH=arm64 dpkg-shlibdeps -O --warnings=0 "-L$sysroot/var/lib/dpkg/shlibs" \
    "-l$sysroot/usr/lib/aarch64-linux-gnu" "-l$sysroot/lib/aarch64-linux-gnu" \
    "$build"/bin/{maxsimd,maxsimctl,maxsim-shard,maxsim-loadtest}) | sed -n 's/^shlibs:Depends=//p'
}

root=$build/debian/root
doc=$root/usr/share/doc/maxsim-server
rm -rf "$build/debian"
mkdir -p "$doc/examples" "$root/usr/lib/systemd/system" "$root/usr/share/man" "$root/etc/maxsim" "$root/var/lib/maxsim"

# Copies the systemd units, with the distribution's paths. postinst makes their user. The units of a cluster are only
# installed: the administrator enables them.
units=$root/usr/lib/systemd/system
for unit in maxsimd.service maxsimd@.service; do
  sed -e 's|/opt/maxsim/README.md|/usr/share/doc/maxsim-server/README.md man:maxsimd(8)|' \
    -e 's|/opt/maxsim/bin|/usr/bin|' -e 's|Programs in /opt/maxsim|Programs in /usr/bin|' \
    -e 's| (deploy/systemd/sysusers.conf)||' -e 's|deploy/systemd/cluster|/usr/share/doc/maxsim-server/examples/cluster|' \
    "deploy/systemd/$unit" >"$units/$unit"
  if grep -n /opt/ "$units/$unit"; then die "$unit: the lines above name /opt"; fi
done
mkdir "$units/maxsimd@router.service.d"
cp deploy/systemd/maxsimd@router.service.d/router.conf "$units/maxsimd@router.service.d/"
cp deploy/debian/maxsimd.yaml "$root/etc/maxsim/"
echo /etc/maxsim/maxsimd.yaml >"$build/debian/conffiles"
python3 -B scripts/packages/man_pages.py "$build/bin" "$root/usr/share/man" "${emulator[@]}"

cp README.md deploy/debian/README.Debian deploy/debian/copyright "$doc/"
git ls-files -- 'docs/*.md' ':!docs/lab' | while IFS= read -r page; do
  mkdir -p "$doc/$(dirname "$page")"
  cp "$page" "$doc/$page"
done
python3 -B scripts/packages/licences.py "$build" "$doc/licences"
cp config/maxsimd.yaml config/gpu.yaml "$doc/examples/"
cp -r deploy/prometheus deploy/nginx deploy/grafana "$doc/examples/"
cp -r deploy/systemd/cluster "$doc/examples/"
mkdir "$doc/examples/demo"
cp demo/{tokens,lengths,query_tokens,query_lengths}.npy demo/{passages,queries}.jsonl "$doc/examples/demo/"
find "$root" -type f -exec chmod 644 {} +

version=$(sed -n 's/^set(CPACK_PACKAGE_VERSION "\(.*\)")$/\1/p' "$build/CPackConfig.cmake" | head -1)
release=$(sed -n 's/^set(CPACK_DEBIAN_PACKAGE_RELEASE "\(.*\)")$/\1/p' "$build/CPackConfig.cmake")
contact=$(sed -n 's/^set(CPACK_PACKAGE_CONTACT "\(.*\)")$/\1/p' "$build/CPackConfig.cmake")
if [ -z "$version" ] || [ -z "$release" ]; then
  die "$build/CPackConfig.cmake is none of this project: configure again"
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
gzip -9n <CHANGELOG.md >"$doc/changelog.gz"
gzip -9n >"$doc/changelog.Debian.gz" <<CHANGELOG
maxsim-server ($version-$release) unstable; urgency=medium

  * Version $version: changelog.gz says what is new.

 -- $contact  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
CHANGELOG

definitions=()
if [ -n "$sysroot" ]; then
  libraries=$(foreign_dependencies)
  [ -n "$libraries" ] || die "dpkg-shlibdeps found no packages for the programs' libraries in $sysroot"
  definitions=(-D "CPACK_DEBIAN_PACKAGE_DEPENDS=adduser, $libraries")
fi
mkdir -p "$target"
rm -f "$target"/maxsim-server_*.deb
(cd "$build/debian" &&
  cpack --config ../CPackConfig.cmake -G DEB -B "$build/debian/cpack" "${definitions[@]}" >cpack.log 2>&1) ||
  { cat "$build/debian/cpack.log" >&2; die "cpack failed"; }
package=$(basename "$build"/debian/cpack/*.deb)
cp "$build/debian/cpack/$package" "$target/"
echo "$target/$package"
