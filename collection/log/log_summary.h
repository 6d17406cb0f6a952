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

// Returns what the log of the collection in `folder` holds, at some moment of the call where it is written to
// meanwhile. NOT_FOUND, DATA_LOSS as CollectionLog::Open.
absl::StatusOr<LogSummary> SummarizeLog(const std::string& folder, const Manifest& manifest);

// OK when the shards in `folder` are all of the collection: it has no log, or one that has no write that they lack, and
// none of their documents was replaced or deleted. FAILED_PRECONDITION otherwise, saying what brings that about.
absl::Status CheckShardsAreComplete(const std::string& folder, const Manifest& manifest);

// Returns the log_sequence that the manifest of a build of that format into `folder` gets, where `asked` is what its
// caller said. Shards of a build beside an empty log hold no write of it: 0. FAILED_PRECONDITION when the log is one of
// another format, when it has writes and nothing was asked, or when it does not hold the writes behind what was asked.
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
