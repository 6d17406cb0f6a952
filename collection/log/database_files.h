// Checks the files of a log's database against its mark before RocksDB opens them. RocksDB takes a truncated MANIFEST
// for an older state of the database, or aborts the process.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/log/log_mark.h"
#include "collection/log/torn_tails.h"

namespace maxsim::collection {

// Checks that CURRENT names a MANIFEST that still has all bytes that the mark records. Bytes after them may be missing,
// because a crash may cut them off. Returns DATA_LOSS with the name of the file.
absl::Status CheckManifestFile(const std::string& database_path, const WrittenFiles& written);

// Checks the write-ahead logs from number `min_needed` on, which are still needed: the closed ones must be undamaged,
// and the last one must hold what the mark records. Returns DATA_LOSS with the name of the file.
absl::Status CheckWalFiles(const std::string& database_path, const WrittenFiles& written, uint64_t min_needed);

// Finds out whether the MANIFEST or the last write-ahead log ends with data that a power cut tore before it was
// synced. Returns the length of the undamaged beginning of each such file. Only data after the length that the mark
// records can be torn. For the write-ahead log the mark may be too old. So a damaged record of it counts as torn only
// if no undamaged record follows: each record is synced before the next one is written.
absl::StatusOr<TornTails> FindTornTails(const std::string& database_path, const WrittenFiles& written);

// Records the lengths of the files of a closed database in the mark.
absl::Status NoteClosedDatabase(const std::string& database_path, LogMark& mark);

// Records the length of an open database's MANIFEST in the mark, and syncs the mark. The listener does the same on
// RocksDB's threads after each flush and compaction, before RocksDB deletes the files that these replace. The mark must
// outlive the database.
absl::Status NoteManifestOf(rocksdb::DB& db, LogMark& mark);
std::shared_ptr<rocksdb::EventListener> MakeManifestListener(LogMark* mark);

}  // namespace maxsim::collection
