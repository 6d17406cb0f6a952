// Makes the logs of live collections that are built from the documents of other live collections (the sources): the
// stream, the position in it, and the versions of the ids.
//
// Sources that follow a stream may be at different sequences. Let L be the lowest of these, and H the sequence of
// another source. The result's position is L, so a server that loads the result applies the messages L + 1 .. H a
// second time to the documents of that source. Still, each id ends in the same state as on a server that applied each
// message once:
//
// - A document that was written after L is left out, with its version. (Its position, 2^40 + the sequence of its write,
//   says when it was written.) The message that wrote it takes effect again, because no earlier message after L for
//   this id has as new a version. Later messages for this id have no effect, as they had none the first time.
// - Every other document with a version, and every deleted id with a version, already has the highest version of all
//   messages for its id up to H. So these messages are stale and change nothing.
// - Messages without a version take effect again in the same order, and the last one for an id decides.
//
// This requires of clients that they write an id always with versions or never, and that no version is forgotten
// between L and H (version_memory.h). Otherwise an id may end in the state of an earlier message.
//
// Until all messages up to H are applied, documents are missing or out of date. So a server must not serve the result
// before it has applied all messages that the stream had when the server started.
//
// Documents that were written after L cannot be kept. Positions must ascend through a partition's shards and segments,
// but the server adds documents of other sources, with lower positions, after them.
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

// Returns the sequence after which the result's log begins. With a stream, it is the lowest of the logs' last
// sequences. Without a stream, each log has numbered its own writes, and it is the highest number.
uint64_t PositionOfParts(const PartSources& sources);

// Makes the logs of the results. Not thread-safe.
class PartLogs {
 public:
  // Finds the ids of the documents that are left out, whose positions are above max_position of their source. At least
  // one source must have a log. `sources` and `stop` (may be null) must outlive this object. Returns errors of the
  // shards and of `stop`.
  static absl::StatusOr<PartLogs> Plan(const PartSources& sources, const StopSignal* stop);

  // Creates the log of the result in `folder`, with the versions that the sources' logs remember for ids in `slots`.
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
