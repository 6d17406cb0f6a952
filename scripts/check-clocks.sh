#!/usr/bin/env bash
# Fails if a program reads the wall clock, which may be set at any time: durations and deadlines need MonotonicNow()
# (base/monotonic_clock.h). Lines that make a time for people to read are allowed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

wall_clock='absl::Now\(|system_clock|ToChronoTime|CLOCK_REALTIME|gettimeofday|\btime\((nullptr|NULL|0)\)'

# Entries FILE:TEXT. A line of FILE may read the wall clock if it contains TEXT.
allowed=(
  'base/monotonic_clock.h:kZero'          # where the monotonic clock begins
  'bench/program.cc:std::time'            # the date of a report
  'loadtest/loadtest.cc:report_.started'
  'collection/build/generation_files.cc:CreationTime'
  'backup/s3/s3_store.cc:.now'             # a store refuses signatures of another time
  'tools/maxsimctl/backup/backup.cc:CreationTime'
  'server/store/collection_loader.cc:loaded_at'
  'server/store/wanted_generation.cc:a revision'   # later than those of earlier processes
  'server/cluster/changes/cluster_reload.cc:a revision'
  'server/tracing/otlp_exporter.cc:to_wall_clock'
)

is_allowed() {
  local entry
  for entry in "${allowed[@]}"; do
    if [[ $1 == "${entry%%:*}":* && $1 == *"${entry#*:}"* ]]; then return 0; fi
  done
  return 1
}

failed=0
count=0
while IFS= read -r line; do
  if [[ ${line#*:*:} =~ ^\ *// ]]; then continue; fi
  count=$((count + 1))
  is_allowed "$line" && continue
  echo "$line" >&2
  failed=1
done < <(git ls-files -co --exclude-standard backup base bench client collection kernels loadtest server tools | grep -E '\.(h|cc|cu|cuh)$' |
  xargs grep -nE "$wall_clock" /dev/null)
if [ $failed -ne 0 ]; then
  echo "the wall clock may be set at any time: MonotonicNow() is for durations and deadlines (base/monotonic_clock.h)" >&2
  exit 1
fi
echo "clocks: $count lines read the wall clock, for people"
