// The collections that a split, a merge (repartition.h) or an assembly (assemble.h) reads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "collection/partition/stored_documents.h"

namespace maxsim::collection {

struct PartSources {
  std::vector<StoredCollection> collections;  // at least one
  // [collections] The log of each collection; null if the collection is not live. No other process can open these logs
  // meanwhile.
  std::vector<std::unique_ptr<CollectionLog>> logs;

  bool any_is_live() const;
  bool all_are_live() const;
  // Returns the stream of the first log that follows one; nullopt if none does.
  std::optional<LogStream> stream() const;
};

// Opens the existing log of a live collection. If another process has it open, the error begins with "a live collection
// is `done` while no server has it loaded", where `done` is a word such as "split".
absl::StatusOr<std::unique_ptr<CollectionLog>> OpenSourceLog(const std::string& folder, const Manifest& manifest,
                                                             std::string_view done);

// Returns FAILED_PRECONDITION, naming both folders, if the two cannot be parts of one collection. If `are_live`, they
// may differ in their generation, and in whether they have payloads.
absl::Status CheckAlike(const StoredCollection& one, const StoredCollection& other, bool are_live);

// Returns OK if all sources follow one stream or none follows a stream. Otherwise returns FAILED_PRECONDITION, naming
// two folders.
absl::Status CheckStreams(const PartSources& sources);

}  // namespace maxsim::collection
