// The data members of a CollectionLog. The functions are in collection_log.cc, log_append.cc and log_remembering.cc.
#pragma once

#include <rocksdb/write_batch.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/stop.h"
#include "base/text.h"
#include "collection/log/collection_log.h"
#include "collection/log/log_database.h"
#include "collection/log/log_mark.h"
#include "collection/log/log_reserve.h"

namespace maxsim::collection {

struct CollectionLog::State {
  std::string folder;  // the collection's
  LogFormat format;
  std::unique_ptr<LogMark> mark;

  // Locked exclusively while the database is closed and opened again, and shared while it is used.
  mutable std::shared_mutex mutex;
  // Serialises writes, so that the whole write-ahead log is on disk when its length is recorded in the mark.
  std::mutex write_mutex;
  std::optional<LogReserve> reserve;  // this and the next: guarded by `write_mutex`, or by `mutex` held exclusively
  uint64_t unflushed_bytes = 0;       // upper limit of the bytes that only the write-ahead log holds
  // After a failed Recover the database is open only for reading, or null if it cannot be read either.
  std::unique_ptr<LogDatabase> database;
  std::atomic<bool> failed{false};  // a write has failed, and no other may follow
  std::atomic<bool> has_versions{false};
  std::atomic<bool> needs_upgrade{false};  // UpgradeVersions must succeed before the next write
  // Whether the log has an earlier format, and UpgradeVersions has not begun.
  std::atomic<bool> has_old_format{false};
  std::atomic<uint64_t> deleted_bytes{0};  // of the writes on the disk (version_memory.h)
  uint64_t remembered_bytes = 0;           // written while `mutex` is held alone
  // Compactions of the database have dropped the versions of deletes below this count of deleted bytes
  // (version_memory.h).
  mutable std::atomic<uint64_t> compacted_below{0};
  std::atomic<uint64_t> first{0};
  std::atomic<uint64_t> last{0};
  std::optional<LogStream> stream;  // written while `mutex` is held alone

  absl::Status OpenDatabase();
  absl::StatusOr<const LogDatabase*> Database() const;
  absl::Status Write(rocksdb::WriteBatch& batch, std::optional<uint64_t> last_sequence = std::nullopt);
  absl::Status KeepRoomForStart(uint64_t num_bytes);
  absl::Status NoteWrite(std::optional<uint64_t> last_sequence);
  absl::Status AddRecord(const LogRecord& record, rocksdb::WriteBatch& batch, std::string& head,
                         uint64_t& new_deleted_bytes) const;
  absl::Status AddVersion(const LogRecord& record, rocksdb::WriteBatch& batch, uint64_t& new_deleted_bytes) const;
  absl::Status Append(absl::Span<const LogRecord> records);
  absl::StatusOr<uint64_t> VersionAt(std::string_view key, uint64_t pending_bytes) const;
  absl::Status ReadVersions(const VersionVisitor& visit) const;
  void NoteDeletedBytes(uint64_t now);
  absl::Status UpgradeVersions(const std::function<bool(const LogRecord&)>& holds, const StopSignal* stop);
  absl::Status MarkOldVersions(const std::function<bool(const LogRecord&)>& holds, const StopSignal* stop);
  absl::Status DropForgottenVersions() const;
  absl::Status Truncate(uint64_t through, int64_t generation);
  absl::Status ReclaimSpace() const;
  absl::Status Follow(const LogStream& named);
  std::string Where() const { return Cat("the log of ", folder, ": "); }
};

}  // namespace maxsim::collection
