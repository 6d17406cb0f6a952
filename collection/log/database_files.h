// Checks the files of a log's database against its mark (log_mark.h), which has lower limits of their lengths, before
// RocksDB opens them. RocksDB itself takes a truncated MANIFEST for an older state of the database, or aborts the
// process.
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

// Checks that the file CURRENT names a MANIFEST that still has all bytes that the mark records. If not, returns
// DATA_LOSS with the name of the file.
absl::Status CheckManifestFile(const std::string& database_path, const WrittenFiles& written);

// Checks the write-ahead logs with numbers from `min_needed` on. The one that the mark names must have all bytes that
// the mark records, and those before it must be undamaged. If not, returns DATA_LOSS with the name of the file.
absl::Status CheckWalFiles(const std::string& database_path, const WrittenFiles& written, uint64_t min_needed);

// Finds out whether the MANIFEST or the last write-ahead log ends with data that a power cut tore before it was synced.
// Returns the length of the undamaged beginning of each such file. Only data after the length in the mark counts as
// torn; earlier damage is a loss. In the write-ahead log, which may be longer than the mark says, damage also counts as
// a loss if an undamaged record follows it, because each record is synced before the next is written.
absl::StatusOr<TornTails> FindTornTails(const std::string& database_path, const WrittenFiles& written);

// Records the lengths of the files of a closed database in the mark.
absl::Status NoteClosedDatabase(const std::string& database_path, LogMark& mark);

// Records the length of an open database's MANIFEST in the mark, and syncs the mark. The listener does the same on
// RocksDB's threads after each flush and compaction. The mark must outlive the database.
absl::Status NoteManifestOf(rocksdb::DB& db, LogMark& mark);
std::shared_ptr<rocksdb::EventListener> MakeManifestListener(LogMark* mark);

}  // namespace maxsim::collection
