// Makes RocksDB read files only up to a given length, as if they ended there. A power cut can damage the last record of
// a MANIFEST or write-ahead log (some sectors are missing), and RocksDB would refuse the database because of it.
#pragma once

#include <rocksdb/env.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace maxsim::collection {

// For paths of files, the number of bytes to read. Files that are not in the map are read whole.
using TornTails = std::map<std::string, uint64_t>;

// Returns a RocksDB environment in which the files of `tails` appear shorter. The files themselves do not change. The
// environment must outlive the database that is opened in it.
std::unique_ptr<rocksdb::Env> MakeEnvWithoutTails(TornTails tails);

}  // namespace maxsim::collection
