// The folder of a log: its contents, and how it is created in one step.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/collection_log.h"

namespace maxsim::collection {

// `folder` is the collection's in all of these.
std::string LogFolder(const std::string& folder);
std::string LogDatabasePath(const std::string& folder);

// Returns the size of the database's files.
uint64_t NumLogBytes(const std::string& folder);

inline rocksdb::WriteOptions Synced() {
  rocksdb::WriteOptions options;
  options.sync = true;
  return options;
}

// Makes an empty log, whose first write gets sequence `begin` + 1. Makes it under a temporary name, and renames it once
// it is on the disk.
absl::Status CreateLog(const std::string& folder, const LogFormat& format, uint64_t begin, uint64_t remembered_bytes);

// Makes a copy of the open database in the same way. FAILED_PRECONDITION if the folder has a log. Returns the last
// sequence of the copy.
absl::StatusOr<uint64_t> CopyLog(rocksdb::DB& db, const std::string& folder);

}  // namespace maxsim::collection
