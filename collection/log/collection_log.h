// The durable log of a live collection: an ordered sequence of upserts and deletes, in a RocksDB database in the
// collection's folder. The log also stores the versions of ids and the tombstones of shards.
//
// A generation's manifest names the last write that its shards hold (Manifest::log_sequence). The log holds the later
// writes. For each generation that may be opened, it also holds the tombstones of the shards: the documents that writes
// up to log_sequence have replaced or deleted. (Compaction does not rewrite a shard with few tombstones.)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/stop.h"
#include "collection/log/log_record.h"
#include "collection/log/version_memory.h"
#include "collection/manifest.h"

namespace maxsim::collection {

// The planned number of file descriptors of an open log. kOtherLogDescriptors of them are for the write-ahead logs, the
// MANIFEST, locks, the mark and files that are being written. The database uses the others for files of keys and
// documents. A compaction may exceed this number for a while.
inline constexpr int kMaxLogDescriptors = 48;
inline constexpr int kOtherLogDescriptors = 16;

// The name of the log's folder, in the collection's folder. A collection with this folder is live.
inline constexpr std::string_view kLogFolderName = "log";

// Returns whether the folder at `path` has a log.
bool HasLog(const std::string& path);

// Returns FAILED_PRECONDITION if the manifest says that the collection has a log but the folder has none. Then the
// log's volume is not mounted, or the log was deleted.
absl::Status CheckLogIsThere(const std::string& folder, const Manifest& manifest);

// The properties that a log is created with. Opening the log checks that the collection still has them.
struct LogFormat {
  IdType id_type = IdType::kString;
  ScalarType storage = ScalarType::kF16;
  int32_t dim = 0;
  uint64_t rotation_seed = 0;  // i8

  static LogFormat Of(const Manifest& manifest);
  bool operator==(const LogFormat&) const = default;
};

// Returns the format in words, such as "string ids, f16, dimension 128".
std::string Describe(const LogFormat& format);

// A stream that orders the writes of several servers. A log may follow a stream. If a stream was deleted and created
// again, it has a later creation time.
struct LogStream {
  std::string name;
  uint64_t created_ns = 0;  // creation time, in nanoseconds since 1970, from the stream's server

  bool operator==(const LogStream&) const = default;
};

// Returns whether two descriptions may be of one stream: the names are equal, and the creation times differ by at most
// a second. If servers that start together all ask NATS to create the stream, it may accept several of these requests,
// and then its servers can report the time of any of them, later on too. A stream that is deleted and created again
// within a second of its creation is not told apart.
bool MayBeSame(const LogStream& a, const LogStream& b);

// Returns the stream in words, such as "stream maxsim-docs of 2026-01-31T12:00:00.123456789Z".
std::string Describe(const LogStream& stream);

// The state that CollectionLog::Create gives a new log.
struct NewLog {
  uint64_t begin = 0;                            // the last write that the shards hold
  std::optional<LogStream> stream = {};          // the stream whose messages its writes are
  uint64_t remembered_bytes = kRememberedBytes;  // the limit for versions of deleted ids (version_memory.h)
  uint64_t deleted_bytes = 0;                    // the count of deleted bytes
};

// Called with the version of an id. The view is valid during the call.
using VersionVisitor = std::function<absl::Status(const IdVersion&)>;

// The documents of each shard of a generation that were replaced or deleted, as ordinals in the shard, ascending.
using Tombstones = std::vector<std::vector<uint32_t>>;

// The class is thread-safe: one thread may append while others read. While a process has a log open, no other process
// can open it.
class CollectionLog {
 public:
  enum class Mode {
    kMustExist,
    kCreate,  // makes the log if there is none
  };

  // Opens the log in the collection's `folder`. A new log is empty: its first write gets sequence `begin` + 1, where
  // `begin` is the last write that the shards hold. `remembered_bytes` is a new log's limit for versions of deleted ids
  // (version_memory.h); an existing log keeps its limit. Returns NOT_FOUND; FAILED_PRECONDITION if another process has
  // the log open, or if the log is of another LogFormat or a later format version (the message names it); DATA_LOSS if
  // the log is damaged: the message says from which sequence on, and Open changes nothing.
  static absl::StatusOr<std::unique_ptr<CollectionLog>> Open(const std::string& folder, const LogFormat& format,
                                                             Mode mode, uint64_t begin = 0,
                                                             uint64_t remembered_bytes = kRememberedBytes);
  // Makes a log without writes in the collection's `folder`, in one step: the log appears complete, or not at all. Its
  // first write gets sequence `log.begin` + 1. `add_versions` (may be null) passes the versions that ids have to the
  // function that it is called with, each id once, in any order; none may have been deleted above `log.deleted_bytes`.
  // Returns FAILED_PRECONDITION if the folder has a log, the first error of `add_versions`, or errors of the disk like
  // Append.
  static absl::Status Create(const std::string& folder, const LogFormat& format, const NewLog& log,
                             const std::function<absl::Status(const VersionVisitor& add)>& add_versions = nullptr);
  virtual ~CollectionLog();

  const LogFormat& format() const;

  // Returns the sequence of the last write. If there was never a write, returns the sequence that the log began with.
  uint64_t last_sequence() const;
  // Returns the sequence before the first write that the log still holds. Writes up to this sequence have been dropped.
  uint64_t first_sequence() const;

  // Returns the stream that the log follows: its writes are the stream's messages and have their sequences. Returns
  // nullopt for a log that numbers its own writes.
  std::optional<LogStream> stream() const;
  // Makes the log follow a stream from now on, durably. Returns FAILED_PRECONDITION if the log follows another stream,
  // or has had writes that did not come from a stream. Do not append during this call.
  absl::Status Follow(const LogStream& stream);

  // Upgrades a log of an earlier format, which does not distinguish the versions of deleted ids from those of
  // documents. Marks the version of each id for which `holds` returns false as that of a deleted id. `holds` says
  // whether the collection, with the writes up to last_sequence(), has a document of the record's id. Until this has
  // succeeded, Append to such a log returns FAILED_PRECONDITION. Does nothing to other logs. Reads all versions. Soon
  // after `stop` (may be null) is stopped, returns its status; the next call starts again from the beginning.
  absl::Status UpgradeVersions(const std::function<bool(const LogRecord&)>& holds, const StopSignal* stop = nullptr);

  // Writes the records, whose sequences follow last_sequence(), with the versions of their ids, and returns when they
  // are on the disk. After an error each of them may or may not be written, and nothing can be appended until Recover()
  // has succeeded. RESOURCE_EXHAUSTED if the disk is full, UNAVAILABLE for other errors of the disk. One thread at a
  // time.
  absl::Status Append(absl::Span<const LogRecord> records);

  // Opens the log again after a failed Append and finds out what it holds: last_sequence() is right afterwards.
  absl::Status Recover();

  // Calls `visit` for each record after `after`, up to and including `through`, in order. Stops at its first error and
  // returns that. The record's views are valid during the call. DATA_LOSS, naming the sequence, if a record is missing
  // or damaged.
  using Visitor = std::function<absl::Status(const LogRecord&)>;
  absl::Status Read(uint64_t after, uint64_t through, const Visitor& visit) const;

  // Calls `visit` for each record after `after` that the log has. Includes records that a running Append has not yet
  // returned from, if VersionOf may already have returned their versions. Visits none if no id ever had a version.
  // Errors are those of Read.
  absl::Status ReadBehind(uint64_t after, const Visitor& visit) const;

  // Return the version that the client gave when it last wrote or deleted the id. Return 0 if it gave none, or if the
  // id was deleted and its version is forgotten (version_memory.h). `pending_bytes` is the sum of DeletedBytes over the
  // records that the caller will append before the write for which it asks.
  absl::StatusOr<uint64_t> VersionOf(std::string_view id, uint64_t pending_bytes = 0) const;
  absl::StatusOr<uint64_t> VersionOf(int64_t id, uint64_t pending_bytes = 0) const;
  uint64_t remembered_bytes() const;
  // Returns the count of deleted bytes (version_memory.h).
  uint64_t deleted_bytes() const;
  // Calls `visit` for each id that has a version which is not forgotten, in the order of the ids' bytes. Returns its
  // first error. FAILED_PRECONDITION for a log with versions that UpgradeVersions must upgrade first. Errors of the
  // database are DATA_LOSS and those of Append.
  absl::Status ReadVersions(const VersionVisitor& visit) const;

  // Saves the tombstones, [shards], of a generation that is about to be published, durably. Replaces the tombstones of
  // this generation and of later ones, which were never published.
  absl::Status PutTombstones(const Manifest& manifest, const Tombstones& tombstones);
  // Returns the saved tombstones; empty lists if none were saved for this generation. Tombstones are saved together
  // with the manifest's log_sequence and the shards' checksums. So the tombstones of a compaction that was never
  // published cannot be mistaken for those of a build with the same generation number. DATA_LOSS for ordinals that a
  // shard does not have.
  absl::StatusOr<Tombstones> TombstonesOf(const Manifest& manifest) const;

  // Drops the records up to and including `through`, and all tombstones except those of `generation`, the published one
  // (0 keeps none). Older generations are not opened again, and newer ones were never published. No compaction may run
  // during this call.
  absl::Status Truncate(uint64_t through, int64_t generation);
  // Frees the disk space of dropped records and, if there are enough of them, of forgotten versions. Takes a while,
  // because it first writes all data in memory to files.
  absl::Status ReclaimSpace();

  // Returns about how many bytes the log has on the disk.
  uint64_t num_bytes() const;

  // Writes a copy of the log to `folder`, which must not have a log. Files that will not change any more become hard
  // links if the file system has them. May run during Append: the copy has at least all records that were appended
  // before the call. Returns the copy's last sequence.
  absl::StatusOr<uint64_t> Checkpoint(const std::string& folder) const;

 private:
  struct State;
  explicit CollectionLog(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace maxsim::collection
