// The interface of a live collection for the store and the services: it appends writes to a log and applies them to the
// served collection. The implementation is in server/live/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/folder.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "collection/slot_layout.h"

namespace maxsim::store {

class Collection;
class Generation;

// One document to be written or deleted. The caller has validated and converted it: the id has the collection's id
// type, and the token vectors are finite and have the collection's dimension and storage type.
struct Write {
  collection::LogRecord::Kind kind = collection::LogRecord::Kind::kUpsert;
  std::string string_id;
  int64_t int_id = 0;
  uint64_t version = 0;  // from the client; 0 if it gave none
  // kUpsert:
  int32_t num_tokens = 0;
  float scale = 0;  // i8
  std::vector<std::byte> rows;
  std::string payload;
  // kSkipped, of a message of a stream:
  collection::SkipReason skip_reason = collection::SkipReason::kOtherPartition;

  uint64_t num_bytes() const { return sizeof(Write) + string_id.capacity() + rows.capacity() + payload.capacity(); }
};

struct WriteResult {
  enum class Outcome : uint8_t {
    kApplied,
    kStale,     // the id already has a version that is as new or newer
    kNotFound,  // kDelete: the collection does not hold the id
  };
  Outcome outcome = Outcome::kApplied;
  uint64_t sequence = 0;  // of the write in the log; 0 if it was not logged
};

struct WriteResults {
  std::vector<WriteResult> results;  // one per write, in order
  uint64_t sequence = 0;             // of the first snapshot that has all of these writes
};

// The client that writes, and the deadline for its writes.
struct WriteCaller {
  uint64_t client = 0;                           // for fairness between clients (service::ClientOf)
  absl::Time deadline = absl::InfiniteFuture();  // of MonotonicNow()
};

// The state of the stream that a live collection follows, for people.
struct StreamState {
  bool connected = false;      // messages of the stream arrive
  uint64_t last_sequence = 0;  // sequence of the stream's last message, as far as it is known
  // How close the NATS stream is to dropping a message that the collection has not applied, as the share of the
  // stream's limits that is left: 1 if all messages are applied or the stream has no limits, 0 if a message is already
  // gone.
  double retention_margin = 1;
  // The stream that the collection follows. Unset until the collection has followed a stream for the first time.
  std::optional<collection::LogStream> identity = {};
};

// The state of a live collection, for people.
struct LiveState {
  uint64_t sequence = 0;
  uint64_t compacted_sequence = 0;
  uint64_t num_changed_documents = 0;  // documents in segments, if alive
  uint64_t num_deleted_documents = 0;  // documents of shards and segments that have a tombstone
  uint64_t num_segments = 0;
  uint64_t segment_bytes = 0;
  uint64_t segment_used_bytes = 0;
  uint64_t log_bytes = 0;
  absl::Status status;      // why nothing can be written now, or OK
  absl::Status compaction;  // why the last compaction in the background failed, or OK
  bool is_compacting = false;
  std::optional<StreamState> stream;  // only if a stream orders the collection's writes
  // The collection's layout (which group of servers owns which slots), or null. Only a collection with a stream may
  // have one.
  std::shared_ptr<const collection::SlotLayout> layout;

  // Returns how many messages of the stream are not applied yet.
  uint64_t lag() const {
    return stream.has_value() && stream->last_sequence > sequence ? stream->last_sequence - sequence : 0;
  }
};

// The class is thread-safe.
class LiveDocuments {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<WriteResults>)>;

  virtual ~LiveDocuments() = default;

  // Writes the documents in order, all or none of them. (If a stream orders the writes, a failed call may have written
  // some; the error message says so.) Calls `done` exactly once: from a thread of the collection, which `done` must not
  // block, or within this call if nothing was queued. When `done` gets OK, the writes are on disk, and the store's Find
  // returns a collection that has them. A client's calls are written in order, and clients take turns.
  //
  // Errors: RESOURCE_EXHAUSTED, with RetryInfo, if too many bytes are queued, if the call would wait or has waited too
  // long, or if segments or the disk are full; DEADLINE_EXCEEDED if the caller's deadline passes before the call is
  // written; UNAVAILABLE if the log cannot be written or the collection is being unloaded.
  virtual void Submit(std::vector<Write> writes, const WriteCaller& caller, Done done) = 0;

  // Compacts all applied writes (writes them to a new generation of files) and serves the new generation. Sets
  // `changed` to false if there were none. If a compaction is already running, waits for it first. Blocks.
  virtual absl::Status Compact(const StopSignal* stop, bool* changed) = 0;

  // Copies the current state of the collection to a new folder, and returns the last sequence in the copy. Blocks.
  virtual absl::StatusOr<uint64_t> SnapshotTo(const std::string& folder, const StopSignal* stop) = 0;

  virtual LiveState state() const = 0;

  // Sets the layout (which group owns which slots) for all servers of the collection, if the layout's revision is still
  // `expected_revision` (0: if there is no layout). `owners` must be valid (collection::CheckSlotOwners). Returns the
  // new layout, which state() shows moments later. Blocks, at most for the time limits of a few calls. Returns
  // FAILED_PRECONDITION if no stream orders the collection's writes, ABORTED about the field "expected_revision" if the
  // layout has another revision, or UNAVAILABLE if the stream's servers do not answer.
  virtual absl::StatusOr<collection::SlotLayout> SetLayout(const std::vector<collection::SlotOwner>& owners,
                                                           uint64_t expected_revision) {
    return absl::FailedPreconditionError("no stream orders its writes (live.log), so it has no layout");
  }

  // Returns the version that the client gave when it last wrote or deleted the id; 0 if it gave none, or if the id was
  // deleted and is forgotten (CollectionLog::VersionOf). Only the function of the collection's id type may be called.
  // Errors are those of the log.
  virtual absl::StatusOr<uint64_t> VersionOf(std::string_view id) const = 0;
  virtual absl::StatusOr<uint64_t> VersionOf(int64_t id) const = 0;

  // Calls `visit` for each write in the log after `sequence`, including writes that no snapshot has yet. Visits none if
  // clients never gave a version. Returns DATA_LOSS if writes after `sequence` were dropped because a generation holds
  // them.
  virtual absl::Status ReadBehind(uint64_t sequence, const collection::CollectionLog::Visitor& visit) const = 0;
  // Returns the version of a write, or DATA_LOSS if the log dropped the write because a generation holds it.
  virtual absl::StatusOr<uint64_t> VersionOfWrite(uint64_t sequence) const = 0;

  // Only the store calls these: TombstonesOf, Serve and EndWrites with the entry's lock held, Stop with or without it.

  // Returns the tombstones of a generation that is about to be loaded. Returns an error if the generation does not
  // belong to this log: FAILED_PRECONDITION if it was built without the log.
  virtual absl::StatusOr<collection::Tombstones> TombstonesOf(const collection::Manifest& manifest) const = 0;

  // Serves `generation`: applies the log's writes after its log_sequence, and passes the result and every later
  // snapshot to `publish`. While this object calls `publish`, it holds no lock that the store's Find could wait for.
  // Requests that began on the previous generation finish on it. Returns RESOURCE_EXHAUSTED if there is no memory for
  // segments; in this case nothing has changed.
  using Publish = std::function<void(std::shared_ptr<const Collection>)>;
  virtual absl::Status Serve(std::shared_ptr<const Generation> generation, Publish publish, const StopSignal* stop) = 0;

  // Ends writing. Writes that were accepted are written and answered; later ones get UNAVAILABLE. Blocks. The log is
  // closed when the object is destroyed.
  virtual void Stop() = 0;

  // Ends writing like Stop, but keeps the log open, so that all functions that read still work until Stop. When it
  // returns, state().sequence is final. Blocks. A collection without a stream may do the same as Stop.
  virtual void EndWrites() { Stop(); }
};

}  // namespace maxsim::store
