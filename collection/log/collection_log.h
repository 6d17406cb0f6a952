// The durable log of a live collection: an ordered sequence of upserts and deletes in a RocksDB database in the
// collection's folder, and what belongs to it: the versions of ids and the tombstones of shards.
//
// A generation's manifest says which writes its shards hold (Manifest::log_sequence). The log holds the ones behind it,
// and, for each generation that may be opened, the tombstones of its shards: which of their documents were replaced or
// deleted up to there (a shard with few of them is not written again by compaction).
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
// MANIFEST, locks, the mark and files that are being written; the database keeps as many files of keys and documents
// open as the rest allows, and a compaction may exceed it for a while.
inline constexpr int kMaxLogDescriptors = 48;
inline constexpr int kOtherLogDescriptors = 16;

// The log's folder inside of the collection's. A folder that has it is a live collection.
inline constexpr std::string_view kLogFolderName = "log";

// Returns whether the folder at `path` has a log.
bool HasLog(const std::string& path);

// Returns FAILED_PRECONDITION if the manifest says that the collection has a log but the folder has none. Then the
// log's volume is not mounted, or the log was deleted.
absl::Status CheckLogIsThere(const std::string& folder, const Manifest& manifest);

// What is fixed when a log is made, and checked when it is opened.
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

// A stream that orders the writes of several servers, which a log may follow. A stream that was deleted and made anew
// has another time of creation.
struct LogStream {
  std::string name;
  uint64_t created_ns = 0;  // since 1970, as the stream's server says

  bool operator==(const LogStream&) const = default;
};

// Returns the stream in words, such as "stream maxsim-docs of 2026-01-31T12:00:00.123456789Z".
std::string Describe(const LogStream& stream);

// The documents of each shard of a generation that were replaced or deleted, as ordinals in the shard, ascending.
using Tombstones = std::vector<std::vector<uint32_t>>;

// The class is thread-safe: one thread may append while others read. A process that has a log open keeps every other
// one from opening it.
class CollectionLog {
 public:
  enum class Mode {
    kMustExist,
    kCreate,  // makes the log where there is none
  };

  // Opens the log in `folder`, the collection's. A new log is empty: its first write gets sequence `begin` + 1, where
  // `begin` is the last write that the shards hold. It remembers versions of deleted ids for `remembered_bytes`
  // (version_memory.h); an existing log keeps its own limit. NOT_FOUND; FAILED_PRECONDITION when another process has it
  // open, or the log is one of another format (which is named); DATA_LOSS for a log that is damaged: the message says
  // from which sequence on, and nothing is changed.
  static absl::StatusOr<std::unique_ptr<CollectionLog>> Open(const std::string& folder, const LogFormat& format,
                                                             Mode mode, uint64_t begin = 0,
                                                             uint64_t remembered_bytes = kRememberedBytes);
  virtual ~CollectionLog();

  const LogFormat& format() const;

  // Returns the sequence of the last write, or what the log began with where there never was one.
  uint64_t last_sequence() const;
  // Returns the sequence before the first write that the log still holds: writes up to there have been dropped.
  uint64_t first_sequence() const;

  // Returns the stream whose messages the log's writes are, by their sequences; nullopt for a log that numbers them
  // itself.
  std::optional<LogStream> stream() const;
  // Has the log follow a stream from now on, and keeps that on the disk. FAILED_PRECONDITION where it follows another
  // one, or has had writes that are no stream's. Nobody may append meanwhile.
  absl::Status Follow(const LogStream& stream);

  // Upgrades a log of an earlier format, which does not distinguish the versions of deleted ids from those of
  // documents. Marks the version of each id for which `holds` returns false as that of a deleted id. `holds` says
  // whether the collection, with the writes up to last_sequence(), has a document of the record's id. Until this has
  // succeeded, Append to such a log returns FAILED_PRECONDITION. Does nothing to other logs. Reads all versions; once
  // `stop` (may be null) is stopped it returns the status of that soon, and the next call begins again.
  absl::Status UpgradeVersions(const std::function<bool(const LogRecord&)>& holds, const StopSignal* stop = nullptr);

  // Writes the records, whose sequences follow last_sequence(), with the versions of their ids, and returns when they
  // are on the disk. On an error none of them may be believed to be written, or not written: nothing can be appended
  // until Recover() has succeeded. RESOURCE_EXHAUSTED when the disk is full, UNAVAILABLE for another error of it. One
  // thread at a time.
  absl::Status Append(absl::Span<const LogRecord> records);

  // Opens the log again after a failed Append and finds out what it holds: last_sequence() is right afterwards.
  absl::Status Recover();

  // Calls `visit` for each record behind `after` and up to `through`, in order, until it returns an error, which is
  // returned. The record's views are valid during the call. DATA_LOSS, which names the sequence, where one is missing
  // or damaged.
  using Visitor = std::function<absl::Status(const LogRecord&)>;
  absl::Status Read(uint64_t after, uint64_t through, const Visitor& visit) const;

  // Calls `visit` for each record behind `after` that the log has: also for those that Append is about to return from,
  // whose versions VersionOf may have returned before this was called. For none where no id ever had a version. Errors
  // are those of Read.
  absl::Status ReadBehind(uint64_t after, const Visitor& visit) const;

  // Return the client's version of an id: the one that it was last written or deleted with. 0 if that was without a
  // version, or a delete whose version is forgotten (version_memory.h). `pending_bytes` is the sum of DeletedBytes over
  // records that will be appended before the write that needs the answer.
  absl::StatusOr<uint64_t> VersionOf(std::string_view id, uint64_t pending_bytes = 0) const;
  absl::StatusOr<uint64_t> VersionOf(int64_t id, uint64_t pending_bytes = 0) const;
  uint64_t remembered_bytes() const;

  // Notes, on the disk, the tombstones of a generation that is about to be published. [shards] What was noted for that
  // number or a later one before is dropped: those generations were never published.
  absl::Status PutTombstones(const Manifest& manifest, const Tombstones& tombstones);
  // Returns them; empty lists for a generation that none were noted for. They belong to the manifest's log_sequence and
  // the shards' checksums: what a compaction noted that did not come to publish says nothing of another build of the
  // same number. DATA_LOSS for ordinals that a shard does not have.
  absl::StatusOr<Tombstones> TombstonesOf(const Manifest& manifest) const;

  // Drops the records up to and with `through`, and the tombstones of all generations but `generation`, the published
  // one (0: of none): those before it are not opened again, and those behind it never came to be published. Nobody may
  // be compacting.
  absl::Status Truncate(uint64_t through, int64_t generation);
  // Frees the disk space of dropped records and, once there are enough of them, of forgotten versions. Takes a while,
  // because it writes what is in memory to files.
  absl::Status ReclaimSpace();

  // Returns about how many bytes the log has on the disk.
  uint64_t num_bytes() const;

  // Writes a log with the same contents to `folder`, which must not have one; files that do not change any more are
  // hard links where the file system can. Safe beside Append: it has what was appended before the call, at least.
  // Returns its last sequence.
  absl::StatusOr<uint64_t> Checkpoint(const std::string& folder) const;

 private:
  struct State;
  explicit CollectionLog(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace maxsim::collection
