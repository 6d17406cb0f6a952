#!/usr/bin/env bash
# Runs Rust with Debian's compiler and crates.
#
#   rust.sh FOLDER build OUTPUT      builds the driver of the conformance suite
#   rust.sh FOLDER test VERSION      tests the Rust client: format, tests, and its package, which must have VERSION
#   rust.sh FOLDER lint              checks the Rust client and the driver with Clippy, and the client's documentation
#
# FOLDER keeps the crates and Cargo's build results. It is made if it is missing.
set -euo pipefail
mkdir -p "$1"
kept=$(realpath "$1")
command=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
driver=conformance_rust_client
folders=(client/rust tests/conformance/drivers/rust)

# Copies the sources, because Cargo writes files beside them. The copy keeps the files' times, by which Cargo decides
# what to compile again. A lock lets only one process at a time use the copy.
workspace=$kept/workspace
mkdir -p "$workspace"
exec 9>"$kept/lock"
flock 9
for folder in "${folders[@]}"; do
  rm -rf "${workspace:?}/$folder"
  mkdir -p "$workspace/$(dirname "$folder")"
  cp -rp "$root/$folder" "$workspace/$folder"
done
cat >"$workspace/Cargo.toml" <<END
[workspace]
members = [$(printf '"%s", ' "${folders[@]}")]
resolver = "2"
END

# Downloads and unpacks the crates, unless the list of them is as it was.
crates=$kept/crates
wanted=$("$root/scripts/setup.sh" --print crates)
if [ "$(cat "$crates/made-of" 2>/dev/null)" != "$wanted" ]; then
  download() {
    rm -rf "$crates"
    mkdir -p "$crates"
    # shellcheck disable=SC2086 # one word per package
    (cd "$crates" && apt-get -qq -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 download $wanted)
  }
  # If the download fails, updates the package lists, which may be missing or name packages that the mirror no longer
  # has.
  as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  download || { "${as_root[@]}" apt-get -qq update && download; }
  for package in "$crates"/*.deb; do
    dpkg-deb --extract "$package" "$crates"
    rm "$package"
  done
  echo "$wanted" >"$crates/made-of"
fi
mkdir -p "$kept/home"
cat >"$kept/home/config.toml" <<END
[source.crates-io]
replace-with = "debian"

[source.debian]
directory = "$crates/usr/share/cargo/registry"

[patch.crates-io]
openssl-macros = { path = "$root/tests/support/openssl_macros" }
END
# These variables keep out other versions of Rust and the user's settings.
export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
export CARGO_HOME=$kept/home CARGO_TARGET_DIR=$kept/target CARGO_NET_OFFLINE=true
export RUSTFLAGS=-Dwarnings RUSTDOCFLAGS=-Dwarnings
# Every build script is linked, and gold needs less time for that.
if command -v ld.gold >/dev/null; then RUSTFLAGS+=" -Clink-arg=-fuse-ld=gold"; fi
# Compiling takes less processor time without debug information and with one code generation unit per crate.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_CODEGEN_UNITS=1 CARGO_PROFILE_DEV_BUILD_OVERRIDE_CODEGEN_UNITS=1

cd "$workspace"
case $command in
  build)
    output=$(realpath -m "$3")
    cargo build --quiet --package "$driver"
    cp "$CARGO_TARGET_DIR/debug/$driver" "$output"
    ;;
  test)
    for folder in "${folders[@]}" "$root/tests/support/openssl_macros"; do
      find "$folder" -name '*.rs' -exec rustfmt --check --edition 2021 --config-path client/rust {} +
    done
    cargo test --package maxsim
    cmp "$root/LICENSE" client/rust/LICENSE
    # Packs the client and compares the package with the folder, to show that the package contains every source file.
    cargo package --package maxsim --allow-dirty --no-verify
    packed=$CARGO_TARGET_DIR/package/maxsim-$3.crate
    unpacked=$kept/unpacked
    rm -rf "$unpacked"
    mkdir "$unpacked"
    tar -xzf "$packed" -C "$unpacked"
    for file in LICENSE README.md src tests; do
      diff -r "client/rust/$file" "$unpacked/maxsim-$3/$file"
    done
    ;;
  lint)
    cargo clippy --all-targets -- -Dwarnings
    cargo doc --no-deps --package maxsim
    ;;
  *)
    echo "rust.sh: unknown command $command" >&2
    exit 2
    ;;
esac
