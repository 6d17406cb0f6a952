// The folder of a log: how it comes to be, whole or not at all, and what lies in it.
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

// Makes an empty log, whose first write gets the sequence behind `begin`, under another name, and gives it its own when
// it is on the disk.
absl::Status CreateLog(const std::string& folder, const LogFormat& format, uint64_t begin, uint64_t remembered_bytes);

// Makes a log of the same contents as the open database, likewise. FAILED_PRECONDITION when there is one. Returns its
// last sequence.
absl::StatusOr<uint64_t> CopyLog(rocksdb::DB& db, const std::string& folder);

}  // namespace maxsim::collection
