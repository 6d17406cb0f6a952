#!/usr/bin/env bash
# Tests the packages of `make wheels` and `make deb` as a user would install them, in fresh root file systems of Debian
# 12 with apt and pip but no compiler. Installs each package, builds a collection, serves it and queries it. Then
# removes and purges the Debian package.
#
#   tests/packages/try-packages.sh [wheel|deb]...      default: both; as root
#
# Needs debootstrap and Debian's mirror. The root file systems are made in build/try-packages and removed at the end.
# Their mounts are visible only to this script's processes. SUITE=jammy MIRROR=http://archive.ubuntu.com/ubuntu tries
# the wheel on another distribution. If this machine lacks that distribution's keys, add
# DEBOOTSTRAP_OPTIONS="--no-check-gpg --components=main,universe".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

die() {
  echo "try-packages: $*" >&2
  exit 1
}
[ "$(id -u)" = 0 ] || die "debootstrap and chroot need root"
# Restarts itself in a separate mount namespace. When its last process ends, the kernel removes the mounts.
if [ "${MAXSIM_TRY_UNSHARED:-}" != 1 ]; then
  exec env MAXSIM_TRY_UNSHARED=1 unshare --mount --propagation private --fork "${BASH_SOURCE[0]}" "$@"
fi

suite=${SUITE:-bookworm}
folder=$PWD/build/try-packages
shopt -s nullglob
wheels=(build/wheels/maxsim_server-*.whl)
debs=(build/deb/maxsim-server_*.deb)
[ $# -gt 0 ] || set -- wheel deb

# enter ROOT COMMAND...: runs a command in a root file system, with only the proxy from this machine's environment.
enter() {
  local root=$1
  shift
  chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@"
}

# new_root NAME: makes a new root file system, with this machine's /proc, /sys and /dev, the demo's vectors and
# trial.sh.
new_root() {
  local root=$folder/$1 base
  base=$(tests/packages/debian-base.sh "$folder")
  rm -rf --one-file-system "$root"
  cp -a "$base" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount --rbind /dev "$root/dev"
  cp -L /etc/resolv.conf "$root/etc/resolv.conf"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  # Exit code 101 tells packages not to start their services, because no init system runs here.
  printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
  chmod 755 "$root/usr/sbin/policy-rc.d"
  mkdir "$root/packages"
  cp -r demo tests/packages/trial.sh "$root/packages/"
  enter "$root" apt-get -q update >"$folder/apt.log" 2>&1 || { tail "$folder/apt.log" >&2; die "apt-get update failed"; }
}

apt_install() {
  local root=$1
  shift
  enter "$root" apt-get -q install -y "$@" >"$folder/apt.log" 2>&1 || { tail -20 "$folder/apt.log" >&2; die "apt-get: $*"; }
}

no_compiler() {
  ! enter "$1" sh -c 'command -v cc gcc g++ clang make ld' || die "the root has a compiler"
}

try_wheel() {
  local root=$folder/wheel wheel leftover
  [ ${#wheels[@]} = 1 ] || die "build/wheels has ${#wheels[@]} wheels of maxsim-server: make wheels"
  wheel=/packages/$(basename "${wheels[0]}")
  new_root wheel
  cp "${wheels[0]}" "$root/packages/"
  # Recommended packages would bring a compiler.
  apt_install "$root" --no-install-recommends python3-pip python3-venv
  no_compiler "$root"

  echo "-- $suite: a virtual environment"
  enter "$root" python3 -m venv /opt/venv
  enter "$root" /opt/venv/bin/pip install --quiet "$wheel"
  enter "$root" /opt/venv/bin/maxsimd --help | sed -n 1p
  enter "$root" /packages/trial.sh /opt/venv/bin /packages/demo
  enter "$root" /opt/venv/bin/python -m maxsim_server
  enter "$root" /opt/venv/bin/maxsimd --check-config \
    --config "$(enter "$root" /opt/venv/bin/python -m maxsim_server configuration)"
  enter "$root" /opt/venv/bin/pip uninstall --quiet -y maxsim-server
  leftover=$(enter "$root" find /opt/venv -iname '*maxsim*')
  [ -z "$leftover" ] || die "pip uninstall left $leftover"

  echo "-- $suite: pip install --user"
  enter "$root" useradd --create-home tester
  # pip on Debian 12 installs only with --break-system-packages, but older versions of pip do not know this option.
  # shellcheck disable=SC2016 # the variables are those of the inner shell
  local as_tester='pip install --help | grep -q break-system-packages && flag=--break-system-packages
    pip install --quiet --no-warn-script-location --user ${flag:-} "$1" && ~/.local/bin/maxsimd --version'
  enter "$root" setpriv --reuid=tester --regid=tester --clear-groups env HOME=/home/tester sh -ec "$as_tester" sh "$wheel"
  enter "$root" setpriv --reuid=tester --regid=tester --clear-groups env HOME=/home/tester TMPDIR=/tmp \
    /packages/trial.sh /home/tester/.local/bin /packages/demo | tail -1
}

try_deb() {
  local root=$folder/deb deb unit=/usr/lib/systemd/system/maxsimd.service complaints left
  [ ${#debs[@]} = 1 ] || die "build/deb has ${#debs[@]} packages: make deb"
  deb=/packages/$(basename "${debs[0]}")
  new_root deb
  cp "${debs[0]}" "$root/packages/"

  echo "-- $suite: apt install"
  apt_install "$root" "$deb"
  no_compiler "$root"
  enter "$root" maxsimd --help | sed -n 1p
  enter "$root" /packages/trial.sh /usr/bin /packages/demo
  enter "$root" id maxsim
  enter "$root" setpriv --reuid=maxsim --regid=maxsim --clear-groups maxsimd --config /etc/maxsim/maxsimd.yaml --check-config

  echo "-- $suite: an edited configuration outlives an upgrade"
  echo '# edited' >>"$root/etc/maxsim/maxsimd.yaml"
  enter "$root" dpkg -i "$deb" >/dev/null
  [ "$(tail -1 "$root/etc/maxsim/maxsimd.yaml")" = '# edited' ] || die "the edited configuration is gone"

  echo "-- $suite: the unit"
  apt_install "$root" systemd
  # systemd-analyze also checks the units of other packages. Ignores complaints about these.
  complaints=$(enter "$root" systemd-analyze verify --man=no "$unit" 2>&1 | grep -i maxsim || true)
  [ -z "$complaints" ] || die "systemd-analyze verify: $complaints"
  enter "$root" systemctl --quiet enable maxsimd
  [ -L "$root/etc/systemd/system/multi-user.target.wants/maxsimd.service" ] || die "systemctl enable made no link"

  echo "-- $suite: remove and purge"
  enter "$root" apt-get -q remove -y maxsim-server >/dev/null
  [ -e "$root/etc/maxsim/maxsimd.yaml" ] || die "remove took the configuration"
  [ ! -e "$root/usr/bin/maxsimd" ] || die "remove left /usr/bin/maxsimd"
  enter "$root" apt-get -q purge -y maxsim-server >/dev/null
  left=$(enter "$root" find / -xdev -path /packages -prune -o -iname '*maxsim*' -print)
  [ -z "$left" ] || die "purge left: $left"
  ! grep -s maxsim "$root"/etc/{passwd,group,shadow,gshadow} || die "purge left the user above"
  ! enter "$root" dpkg-query -s maxsim-server >/dev/null 2>&1 || die "dpkg still knows the package"

  echo "-- $suite: a purge keeps the user of files that it leaves"
  apt_install "$root" "$deb"
  enter "$root" install -o maxsim -m 400 /dev/null /etc/maxsim/tokens
  enter "$root" apt-get -q purge -y maxsim-server >/dev/null 2>&1
  [ -e "$root/etc/maxsim/tokens" ] || die "purge took a file that was not the package's"
  enter "$root" id maxsim >/dev/null || die "purge removed the user whose file it left"

  echo "-- $suite: lintian"
  apt_install "$root" --no-install-recommends lintian
  enter "$root" setpriv --reuid=nobody --regid=nogroup --clear-groups lintian --fail-on error "$deb"
}

mkdir -p "$folder"
# Keeps the base file system for the next run. To get a newer one, remove build/try-packages.
trap 'umount -R "$folder"/{wheel,deb}/{dev,sys,proc} 2>/dev/null || true; rm -rf --one-file-system "$folder"/{wheel,deb}' EXIT
for what in "$@"; do
  case "$what" in
    wheel) try_wheel ;;
    deb) try_deb ;;
    *) die "unknown argument $what: wheel or deb" ;;
  esac
done
echo "try-packages: $* on $suite: everything did what it should"
