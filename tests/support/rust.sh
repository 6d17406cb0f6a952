#!/usr/bin/env bash
# Runs Rust with Debian's compiler and crates, so that nothing is downloaded.
#
#   rust.sh FOLDER build OUTPUT      builds the driver of the conformance suite
#   rust.sh FOLDER test VERSION      tests the Rust client: format, tests, and its package, which must have VERSION
#   rust.sh FOLDER lint              checks the Rust client and the driver with Clippy, and the client's documentation
#
# FOLDER keeps what Rust has compiled. It is made if it is missing.
set -euo pipefail
mkdir -p "$1"
kept=$(realpath "$1")
command=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
driver=conformance_rust_client
folders=(client/rust tests/conformance/drivers/rust)

# Cargo writes files beside the sources, so it gets a copy. The copy keeps the times of the files, by which Cargo decides
# what it must compile again. Only one process at a time may use it.
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
mkdir -p "$kept/home"
cat >"$kept/home/config.toml" <<END
[source.crates-io]
replace-with = "debian"

[source.debian]
directory = "/usr/share/cargo/registry"
END
# These variables keep out other versions of Rust and the user's settings.
export PATH=/usr/bin:$PATH RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
export CARGO_HOME=$kept/home CARGO_TARGET_DIR=$kept/target CARGO_NET_OFFLINE=true
export RUSTFLAGS=-Dwarnings RUSTDOCFLAGS=-Dwarnings
# Without debug information, compiling takes less time.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0

cd "$workspace"
case $command in
  build)
    output=$(realpath -m "$3")
    cargo build --quiet --package "$driver"
    cp "$CARGO_TARGET_DIR/debug/$driver" "$output"
    ;;
  test)
    for folder in "${folders[@]}"; do
      find "$folder" -name '*.rs' -exec rustfmt --check --edition 2021 --config-path client/rust {} +
    done
    cargo test --package maxsim
    cmp "$root/LICENSE" client/rust/LICENSE
    # Packs the client, and compiles it from the package alone.
    cargo package --package maxsim --allow-dirty
    packed=$CARGO_TARGET_DIR/package/maxsim-$3.crate
    for file in Cargo.toml LICENSE README.md src/lib.rs; do
      tar -tzf "$packed" "maxsim-$3/$file"
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
