// The durable log of a live collection: its upserts and deletes in order, in a RocksDB database in the collection's
// folder. A write's number in this order is its sequence. The log also stores the clients' versions of ids, and the
// tombstones of shards (their deleted and replaced documents).
//
// A generation's manifest names the last write that is merged into its shards (Manifest::log_sequence); the log has the
// later writes. For each generation that may be opened, the log also has the tombstones of writes up to log_sequence,
// because compaction does not rewrite a shard with few tombstones.
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

// The planned number of file descriptors of an open log. RocksDB keeps up to kMaxLogDescriptors - kOtherLogDescriptors
// data files open; the rest is for write-ahead logs, locks and so on. A compaction of the database may exceed the plan
// for a while.
inline constexpr int kMaxLogDescriptors = 48;
inline constexpr int kOtherLogDescriptors = 16;

// The name of the log's folder, in the collection's folder. A collection with this folder is live.
inline constexpr std::string_view kLogFolderName = "log";

// Returns whether the folder at `path` has a log.
bool HasLog(const std::string& path);

// Returns FAILED_PRECONDITION if the manifest says that the collection has a log but the folder has none: the log was
// deleted, or its volume is not mounted.
absl::Status CheckLogIsThere(const std::string& folder, const Manifest& manifest);

// The properties of a collection that its log depends on. Opening a log checks that they are those with which it was
// created.
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

// A NATS stream that orders the writes of several servers. A log may follow a stream. A stream that was deleted and
// created again has a later creation time.
struct LogStream {
  std::string name;
  uint64_t created_ns = 0;  // creation time, in nanoseconds since 1970, from the stream's server

  bool operator==(const LogStream&) const = default;
};

// Returns whether `a` and `b` may be the same stream: the names are equal, and the creation times differ by at most a
// second. (If several servers create a stream at the same time, NATS may report any of their times.)
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

// For each shard of a generation, the ascending ordinals of its documents that were replaced or deleted.
using Tombstones = std::vector<std::vector<uint32_t>>;

// Thread-safe: one thread may append while others read. Only one process at a time can have a log open.
class CollectionLog {
 public:
  enum class Mode {
    kMustExist,
    kCreate,  // makes the log if there is none
  };

  // Opens the log in the collection's `folder`. `begin` and `remembered_bytes` are used only for a new log: its first
  // write gets sequence `begin` + 1, where `begin` is the last write that is merged into the shards, and
  // `remembered_bytes` limits the versions of deleted ids (version_memory.h). Returns NOT_FOUND if there is no log and
  // `mode` is kMustExist; FAILED_PRECONDITION if the log is already open, or has another LogFormat or a later format
  // version; DATA_LOSS if the log is damaged. The message of DATA_LOSS says from which sequence on; Open then changes
  // nothing.
  static absl::StatusOr<std::unique_ptr<CollectionLog>> Open(const std::string& folder, const LogFormat& format,
                                                             Mode mode, uint64_t begin = 0,
                                                             uint64_t remembered_bytes = kRememberedBytes);
  // Creates a log without writes in the collection's `folder`, atomically: after a crash it is complete or absent. Its
  // first write gets sequence `log.begin` + 1. `add_versions` (may be null) must call its argument `add` once for each
  // id that has a version, in any order; deleted_at must not be above `log.deleted_bytes`. Returns FAILED_PRECONDITION
  // if the folder has a log, the first error of `add_versions`, or errors of the disk like Append.
  static absl::Status Create(const std::string& folder, const LogFormat& format, const NewLog& log,
                             const std::function<absl::Status(const VersionVisitor& add)>& add_versions = nullptr);
  virtual ~CollectionLog();

  const LogFormat& format() const;

  // Returns the sequence of the last write; the log's `begin` if there was never a write.
  uint64_t last_sequence() const;
  // Returns the sequence up to which writes were dropped. The first write that the log still has is the next one.
  uint64_t first_sequence() const;

  // Returns the stream that the log follows: the writes are the stream's messages and have their sequences. Returns
  // nullopt if the log follows no stream.
  std::optional<LogStream> stream() const;
  // Makes the log follow a stream from now on, durably. Returns FAILED_PRECONDITION if it follows another stream, or
  // has had writes without a stream. Must not run during Append.
  absl::Status Follow(const LogStream& stream);

  // Upgrades a log of an earlier format, which does not distinguish the versions of deleted ids from those of
  // documents. Until this has succeeded, Append to such a log returns FAILED_PRECONDITION. Does nothing for logs of the
  // current format. holds(record) must return whether the collection, after the writes up to last_sequence(), has a
  // document with the record's id; if not, marks the id's version as that of a deleted id. `stop` may be null; once it
  // is stopped, returns its status, and the next call starts from the beginning.
  absl::Status UpgradeVersions(const std::function<bool(const LogRecord&)>& holds, const StopSignal* stop = nullptr);

  // Writes records and the versions of their ids, and returns when they are on disk. The sequences must be
  // last_sequence() + 1, + 2, ... After an error of the disk, the records may or may not be written, and Append fails
  // until Recover() has succeeded. Returns RESOURCE_EXHAUSTED if the disk is full, UNAVAILABLE for other errors of the
  // disk. One thread at a time.
  absl::Status Append(absl::Span<const LogRecord> records);

  // Opens the log again after a failed Append. last_sequence() then says which records were written.
  absl::Status Recover();

  // Calls `visit` for the records with sequences `after` + 1 .. `through`, in order. Ends with the first error that
  // `visit` returns. The record's views are valid during the call. Returns DATA_LOSS, naming the sequence, if a record
  // is missing or damaged.
  using Visitor = std::function<absl::Status(const LogRecord&)>;
  absl::Status Read(uint64_t after, uint64_t through, const Visitor& visit) const;

  // Calls `visit` for all records after `after`, in order, for callers that correct what VersionOf returned. So this
  // includes records of a running Append if VersionOf may already see them, and visits no record if no id ever had a
  // version. Errors are those of Read.
  absl::Status ReadBehind(uint64_t after, const Visitor& visit) const;

  // Return the version that a client gave in the last upsert or delete of the id. Return 0 if it gave none, or if the
  // id was deleted and its version is forgotten (version_memory.h). If the caller is about to append other records
  // first, `pending_bytes` is the sum of their DeletedBytes.
  absl::StatusOr<uint64_t> VersionOf(std::string_view id, uint64_t pending_bytes = 0) const;
  absl::StatusOr<uint64_t> VersionOf(int64_t id, uint64_t pending_bytes = 0) const;
  uint64_t remembered_bytes() const;
  // Returns the count of deleted bytes (version_memory.h).
  uint64_t deleted_bytes() const;
  // Calls `visit` for each id with a version that is not forgotten, in the order of the ids' bytes. Ends with the first
  // error that `visit` returns. Returns FAILED_PRECONDITION if UpgradeVersions must run first. Errors of the database
  // are DATA_LOSS and those of Append.
  absl::Status ReadVersions(const VersionVisitor& visit) const;

  // Saves the tombstones of a generation that is about to be published, durably. Replaces all tombstones of this number
  // and higher ones: those generations were never published.
  absl::Status PutTombstones(const Manifest& manifest, const Tombstones& tombstones);
  // Returns the saved tombstones of the manifest's shards. A shard's list is empty if none were saved for it with this
  // generation, log_sequence and checksum. (A compaction that was never published may have saved other tombstones with
  // the same generation number.) Returns DATA_LOSS for ordinals that a shard does not have.
  absl::StatusOr<Tombstones> TombstonesOf(const Manifest& manifest) const;

  // Drops the records up to and including `through`. If `generation` is not 0, also drops all tombstones except those
  // of `generation`, which must be the published one. No compaction may run during this call.
  absl::Status Truncate(uint64_t through, int64_t generation);
  // Frees the disk space of dropped records and, if there are enough of them, of forgotten versions. Takes a while,
  // because it rewrites files.
  absl::Status ReclaimSpace();

  // Returns about how many bytes the log takes on disk.
  uint64_t num_bytes() const;

  // Writes a copy of the log to `folder`, which must not have a log. Uses hard links for files that no longer change,
  // if the file system has them. May run during Append: the copy has at least all records that were appended before the
  // call. Returns the copy's last sequence.
  absl::StatusOr<uint64_t> Checkpoint(const std::string& folder) const;

 private:
  struct State;
  explicit CollectionLog(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace maxsim::collection
