// Checks the files of a log's database against what its mark says, before RocksDB opens them: RocksDB takes a MANIFEST
// that lost its end for an older state of the database, or aborts the process over it.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "collection/log/log_mark.h"

namespace maxsim::collection {

// Checks that CURRENT names a MANIFEST that has the bytes that the mark knows. What follows them, a crash may have cut
// off. DATA_LOSS, naming the file.
absl::Status CheckManifestFile(const std::string& database_path, const WrittenFiles& written);

// Checks the write-ahead logs that are still needed, those from `min_needed` on: none that was closed is damaged, and
// the last one holds what the mark says. DATA_LOSS, naming the file.
absl::Status CheckWalFiles(const std::string& database_path, const WrittenFiles& written, uint64_t min_needed);

// Notes the files of a database that is not open.
absl::Status NoteClosedDatabase(const std::string& database_path, LogMark& mark);

// Notes how long the MANIFEST of an open database is. RocksDB's threads do the same after each flush and compaction
// through the listener, before they delete the files that these replace. The mark must outlive the database.
absl::Status NoteManifestOf(rocksdb::DB& db, LogMark& mark);
std::shared_ptr<rocksdb::EventListener> MakeManifestListener(LogMark* mark);

}  // namespace maxsim::collection
