#!/usr/bin/env bash
# Builds fuzz targets with the preset asan and runs them one after another, each for some seconds.
#
#   scripts/fuzz.sh [--seconds N] [--build-only | --no-build] [TARGET...]      default: 60 s each, all targets
#
# The inputs that a target finds interesting stay in build/fuzz/corpus/TARGET for the next run. If an input breaks a
# promise, the script writes it to build/fuzz/findings, prints the command that repeats the failure, and exits with 1.
# Once the bug is fixed, move the input to tests/fuzz/corpus/TARGET, which the tests of sanitized builds run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=60
build=1
run=1
targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds)
      seconds=${2:?}
      shift
      ;;
    --build-only) run=0 ;;
    --no-build) build=0 ;;
    -*)
      echo "fuzz: no flag $1" >&2
      exit 2
      ;;
    *) targets+=("$1") ;;
  esac
  shift
done

mapfile -t all < <(find tests/fuzz -name '*_fuzz.cc' -printf '%f\n' | sed 's/_fuzz\.cc$//' | sort)
[ ${#targets[@]} -gt 0 ] || targets=("${all[@]}")
for target in "${targets[@]}"; do
  if ! printf '%s\n' "${all[@]}" | grep -qxF "$target"; then
    echo "fuzz: there is no target $target; there are: ${all[*]}" >&2
    exit 2
  fi
done

# The sanitizer keeps only little freed memory, so that peak memory shows what the code itself holds.
export ASAN_OPTIONS="quarantine_size_mb=32:${ASAN_OPTIONS:-}"

findings=build/fuzz/findings
logs=build/fuzz/logs
mkdir -p "$findings" "$logs"

if [ $build = 1 ]; then
  # Compiles without debug information, which would take a tenth of the compiler's time. Reports then name functions,
  # but no lines.
  {
    cmake --preset asan -DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O0 &&
      cmake --build --preset asan -j "${JOBS:-$(make --no-print-directory -s print-jobs)}" --target "${targets[@]/%/_fuzz}"
  } >"$logs/build.log" 2>&1 || { tail -60 "$logs/build.log"; exit 1; }
fi
[ $run = 1 ] || exit 0

# stat LOG NAME: prints the number after `stat::NAME:` in a log.
stat() {
  sed -n "s/^stat::$2: *//p" "$1"
}

failed=0
for target in "${targets[@]}"; do
  program=build/asan/fuzz/${target}_fuzz
  grown=build/fuzz/corpus/$target
  log=$logs/$target.log
  mkdir -p "$grown"
  folders=("$grown")
  for folder in "tests/fuzz/corpus/$target" "build/asan/tests/fuzz/seeds/$target"; do
    if [ -d "$folder" ]; then folders+=("$folder"); fi
  done
  # The memory limits are small, so that an allocation out of proportion to the input is a finding, and so are leaks
  # that add up. fuzz_corpus_test looks for single leaks, once at its end.
  if ! "$program" -max_total_time="$seconds" -max_len=2048 -rss_limit_mb=512 -malloc_limit_mb=64 -timeout=5 -detect_leaks=0 \
    -print_final_stats=1 -dict="tests/fuzz/dictionaries/$target.dict" -artifact_prefix="$findings/$target-" \
    "${folders[@]}" >"$log" 2>&1; then
    failed=1
    # Prints the end of the report, without the bytes of the input and without libFuzzer's progress.
    grep -vE "^#[0-9]+\s|NEW_FUNC|^0x|^INFO|^stat::|^Base64" "$log" | tail -40 | cut -c1-500
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -1)
    echo "fuzz: $target failed; repeat it with: $program ${input:-(no input was kept, see $log)}"
    continue
  fi
  coverage=$(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -1)
  printf '%-15s %10d executions, %6d a second, %s, peak %d MB\n' "$target" "$(stat "$log" number_of_executed_units)" \
    "$(stat "$log" average_exec_per_sec)" "${coverage:-no coverage}" "$(stat "$log" peak_rss_mb)"
done
exit $failed
