// Looks at a log from outside, without changing it, whether or not it is open: for commands that show or check a
// collection, or read its shards.
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
  uint64_t first_sequence = 0;  // as CollectionLog has them
  uint64_t last_sequence = 0;
  uint64_t num_bytes = 0;  // of its files
  std::optional<LogStream> stream;
  Tombstones tombstones;  // of the manifest's shards

  int64_t num_tombstones() const;
};

// Summarises the log of the collection in `folder`. If it is being written, the summary is of some moment during the
// call. NOT_FOUND, DATA_LOSS as CollectionLog::Open.
absl::StatusOr<LogSummary> SummarizeLog(const std::string& folder, const Manifest& manifest);

// Returns OK if the shards in `folder` hold the whole collection: it has no log, or a log without newer writes, and
// none of their documents was replaced or deleted. FAILED_PRECONDITION otherwise, which says how to bring that about.
absl::Status CheckShardsAreComplete(const std::string& folder, const Manifest& manifest);

// Returns the log_sequence for the manifest of a build into `folder`: `asked`, which the caller gave, or 0 if nothing
// was asked and the log has never had a write. FAILED_PRECONDITION if the log has another format, has writes and
// nothing was asked, ends before `asked`, or has dropped writes after `asked`.
absl::StatusOr<std::optional<uint64_t>> LogSequenceOfBuild(const std::string& folder, const LogFormat& format,
                                                           std::optional<uint64_t> asked);

struct LogReport {
  uint64_t first_sequence = 0;
  uint64_t last_sequence = 0;
  int64_t num_problems = 0;
  std::vector<std::string> problems;  // the first kMaxProblems of verifier.h
};

// Reads every record of the log and checks it: that none is missing, its bytes, its values and its payload. Fails as
// SummarizeLog does.
absl::StatusOr<LogReport> VerifyLog(const std::string& folder, const Manifest& manifest);

}  // namespace maxsim::collection
