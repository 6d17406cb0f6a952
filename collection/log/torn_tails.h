// Has RocksDB read a file up to a length, as if the file ended there. RocksDB refuses a database if the last record of
// its MANIFEST or write-ahead log is damaged. A power cut does that to a record that was being written: the disk has
// some sectors of it, and zeros in place of the others.
#pragma once

#include <rocksdb/env.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace maxsim::collection {

// How much of a file is read, by its path. Files that are not named are read whole.
using TornTails = std::map<std::string, uint64_t>;

// Returns an environment in which those files are shorter. It changes no file. It must outlive the database that is
// opened in it.
std::unique_ptr<rocksdb::Env> MakeEnvWithoutTails(TornTails tails);

}  // namespace maxsim::collection
