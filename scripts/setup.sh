#!/usr/bin/env bash
# Installs the distribution packages that are missing, from deploy/apt-packages.txt, and nothing else.
#
#   scripts/setup.sh [--print] [SECTION...]      sections of the list; default: build
#
# Needs root, or sudo, only when something is missing. --print names the packages of the sections and installs nothing.
# MAXSIM_SETUP=0 skips the check, for a machine whose libraries come from elsewhere.
set -euo pipefail

list="$(dirname "${BASH_SOURCE[0]}")/../deploy/apt-packages.txt"

die() {
  echo "setup: $*" >&2
  exit 1
}

# section_packages NAME: the lines of one section, without comments and blanks.
section_packages() {
  grep -qxF "[$1]" "$list" || die "no section [$1] in deploy/apt-packages.txt"
  awk -v want="[$1]" '/^\[/ { in_section = ($0 == want); next } in_section && NF && $1 !~ /^#/' "$list"
}

installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

available() {
  local policy
  policy=$(LC_ALL=C apt-cache policy "$1" 2>/dev/null)
  grep -q '^  Candidate: [^(]' <<<"$policy"
}

# wanted SECTION...: prints one line per package, with alternatives as "a | b".
wanted() {
  local section
  for section in "$@"; do section_packages "$section" || return 1; done
}

# missing_of LINES: prints the lines that have no installed alternative.
missing_of() {
  local line name
  while IFS= read -r line; do
    for name in ${line//|/ }; do
      installed "$name" && continue 2
    done
    echo "$line"
  done <<<"$1"
}

# choose LINES: prints for each line the first alternative that apt knows; fails, naming the line, when there is none.
choose() {
  local line name
  while IFS= read -r line; do
    for name in ${line//|/ }; do
      if available "$name"; then
        echo "$name"
        continue 2
      fi
    done
    echo "$line" >&2
    return 1
  done <<<"$1"
}

print_only=0
sections=()
for arg in "$@"; do
  case "$arg" in
    --print) print_only=1 ;;
    -*) die "unknown option $arg" ;;
    *) sections+=("$arg") ;;
  esac
done
[ ${#sections[@]} -gt 0 ] || sections=(build)

lines=$(wanted "${sections[@]}")
if [ "$print_only" = 1 ]; then
  echo "$lines"
  exit 0
fi
[ "${MAXSIM_SETUP:-1}" != 0 ] || exit 0
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  die "no apt-get here. Install these by hand, under this system's names, then call make with MAXSIM_SETUP=0:" \
    "$(echo "$lines" | tr '\n' ' ')"
fi

missing=$(missing_of "$lines")
[ -n "$missing" ] || exit 0
# Several tests that run at a time may each call this script, and apt refuses to run twice at once. So this takes a
# lock, and then checks again, because another process may have installed the packages meanwhile. Processes that apt
# starts do not inherit the lock.
lock=${TMPDIR:-/tmp}/maxsim-setup.lock
if command -v flock >/dev/null && { true 9>>"$lock"; } 2>/dev/null; then
  exec 9>>"$lock"
  flock -n 9 || { echo "setup: waiting for another one" && flock -w 900 9; } || die "another one has $lock for 15 minutes"
  missing=$(missing_of "$lines")
  [ -n "$missing" ] || exit 0
fi
echo "setup: installing $(echo "$missing" | tr '\n' ' ')"

# Asks sudo once, here, so that a refusal ends in one clear line.
if [ "$(id -u)" = 0 ]; then
  as_root=(env)
elif command -v sudo >/dev/null && sudo -v; then
  as_root=(sudo env)
else
  die "these packages are missing, and installing them needs root or sudo. As root:" \
    "apt-get install --no-install-recommends $(echo "$missing" | tr '\n' ' ')"
fi
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -q)

# Package lists may be missing (in a fresh image), or so old that the files they name are gone from the mirror. Then
# they are updated.
update() { "${apt[@]}" update 9>&- || die "apt-get update failed"; }
install() {
  local names
  names=$(choose "$missing") || return 1
  # shellcheck disable=SC2086 # one word a package
  "${apt[@]}" install -y --no-install-recommends $names 9>&-
}
unknown=$(choose "$missing" 2>&1 >/dev/null || true)
if [ -n "$unknown" ]; then
  update
  unknown=$(choose "$missing" 2>&1 >/dev/null || true)
  [ -z "$unknown" ] || die "this distribution has no package '$unknown' (Debian 12, 13 and Ubuntu 24.04 have; on" \
    "Ubuntu the universe component must be on)"
  install || die "apt-get install failed"
else
  install || { update && install; } || die "apt-get install failed"
fi
still=$(missing_of "$lines")
[ -z "$still" ] || die "still missing after the install: $(echo "$still" | tr '\n' ' ')"
