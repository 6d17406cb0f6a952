// Reads a log without changing it, even while another process has it open. For commands that show, check or read a
// collection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"

namespace maxsim::collection {

struct LogSummary {
  std::string format;           // such as "string ids, f16, dimension 128"
  uint64_t first_sequence = 0;  // like CollectionLog::first_sequence
  uint64_t last_sequence = 0;
  uint64_t num_bytes = 0;  // of its files
  std::optional<LogStream> stream;
  Tombstones tombstones;  // of the manifest's shards
  uint64_t format_version = 0;
  uint64_t current_format_version = 0;  // the version of a new log of its kind
  // Whether the log has an earlier format, or its upgrade was interrupted (CollectionLog::UpgradeVersions).
  bool needs_upgrade = false;

  int64_t num_tombstones() const;
};

// Summarises the log of the collection in `folder`. If another process writes to the log, the summary is of one moment
// during the call. Returns NOT_FOUND if there is no log, DATA_LOSS if it is damaged, and FAILED_PRECONDITION if a later
// version of maxsimd wrote it.
absl::StatusOr<LogSummary> SummarizeLog(const std::string& folder, const Manifest& manifest);

// Returns OK if the shards in `folder` are the whole collection: it has no log, or the log has neither newer writes nor
// tombstones. Otherwise returns FAILED_PRECONDITION, which says how to compact it, or an error of SummarizeLog.
absl::Status CheckShardsAreComplete(const std::string& folder, const Manifest& manifest);

// Returns the log_sequence for the manifest of a build into `folder`: `asked` or, if that is not set and the log never
// had a write, 0. Without a log, returns `asked`. Returns FAILED_PRECONDITION if the log has another format, if it has
// had writes and `asked` is not set, if it ends before `asked`, or if it has dropped writes after `asked`.
absl::StatusOr<std::optional<uint64_t>> LogSequenceOfBuild(const std::string& folder, const LogFormat& format,
                                                           std::optional<uint64_t> asked);

struct LogReport {
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;
  int64_t num_problems = 0;
  std::vector<std::string> problems;  // the first kMaxProblems of verifier.h
};

// Reads the whole log. Reports missing and damaged records, invalid values and payloads, and wrong versions of ids.
// Returns the errors of SummarizeLog.
absl::StatusOr<LogReport> VerifyLog(const std::string& folder, const Manifest& manifest);

}  // namespace maxsim::collection
