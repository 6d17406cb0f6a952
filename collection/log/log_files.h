// Names, creates and copies the folder of a log.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/collection_log.h"

namespace maxsim::collection {

// In all functions of this file, `folder` is the collection's folder.
std::string LogFolder(const std::string& folder);
std::string LogDatabasePath(const std::string& folder);

// Returns the size of the database's files.
uint64_t NumLogBytes(const std::string& folder);

inline rocksdb::WriteOptions Synced() {
  rocksdb::WriteOptions options;
  options.sync = true;
  return options;
}

// Implements CollectionLog::Create. Creates the log under a temporary name, and renames it when it is on disk.
absl::Status CreateLog(const std::string& folder, const LogFormat& format, const NewLog& log,
                       const std::function<absl::Status(const VersionVisitor& add)>& add_versions);

// Implements CollectionLog::Checkpoint, also with a temporary name. Returns the copy's last sequence, or
// FAILED_PRECONDITION if the folder has a log.
absl::StatusOr<uint64_t> CopyLog(rocksdb::DB& db, const std::string& folder);

}  // namespace maxsim::collection
