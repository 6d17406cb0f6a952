// The logs of live collections that are made from the documents of others: their stream, their position, and the
// versions of their ids.
//
// Sources that follow a stream may be at different sequences. Let L be the lowest of them, and H that of a source that
// was further. The result's position is L, so a server that loads it applies the messages L + 1 .. H to the documents
// of this source a second time. In the end each id has the state that it has on a server which applied each message
// once:
//
// - A document that was written after L is left out, and so is its version. (Its position, 2^40 + the sequence of its
//   write, says when it was written.) The message that wrote it is applied again, and takes effect again: as it took
//   effect the first time, no message of its id between L and it has a version as new as its own. Later messages of its
//   id did not take effect, and do not this time either, because they find the same state.
// - Every other document that has a version, and every deleted id that has one, was last written by the message with
//   the highest version so far. So all messages of its id up to H are stale.
// - A document that was written without a version has no version, and neither has an id that was deleted without one.
//   Messages without a version take effect again, in the same order, and the last of them decides.
//
// This needs two things, which writers have to see to in any case: that an id is written always with versions or always
// without, and that a version is not forgotten between L and H (version_memory.h). If an id is written in both ways
// between L and H, its state may be that of an earlier message.
//
// Until all messages up to H are applied, documents are missing or older than others. So a server must not serve the
// result before it has reached the stream's end, as of its start.
//
// If these documents were kept, their positions would be above those of documents that other sources get from the
// messages after L, and which follow them in the result. Positions must ascend through a partition's shards and
// segments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "collection/partition/part_sources.h"
#include "collection/slots.h"

namespace maxsim::collection {

// Returns the last write that a result of the sources holds. With a stream it is the lowest of the logs' last
// sequences. Logs without a stream have numbered their writes independently of each other, and the result goes on after
// the highest number.
uint64_t PositionOfParts(const PartSources& sources);

// Makes the logs of the results. Not thread-safe.
class PartLogs {
 public:
  // Finds the ids of the documents that are left out: those that lie beyond max_position of their source. At least one
  // source must have a log. `sources` and `stop` (may be null) must outlive this object. Returns errors of the shards
  // and of `stop`.
  static absl::StatusOr<PartLogs> Plan(const PartSources& sources, const StopSignal* stop);

  // Makes the log of the result in `folder`, with the versions of the ids of `slots` that the sources' logs remember.
  // Returns errors of CollectionLog::Create and ReadVersions, and that of `stop`.
  absl::Status Make(const std::string& folder, const Manifest& manifest, const SlotRange& slots) const;

 private:
  PartLogs(const PartSources& sources, const StopSignal* stop) : sources_(&sources), stop_(stop) {}
  absl::Status AddVersions(size_t source, const SlotRange& slots, uint64_t deleted_bytes,
                           const VersionVisitor& add) const;

  const PartSources* sources_;
  const StopSignal* stop_;
  // [sources] The ids of documents that are left out; an int64 id as its eight bytes.
  std::vector<std::unordered_set<std::string>> left_out_;
};

}  // namespace maxsim::collection
