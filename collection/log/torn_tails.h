// Makes RocksDB read files only up to a given length, as if they ended there. RocksDB refuses a database if the last
// record of its MANIFEST or write-ahead log is damaged. A power cut can damage the record that was being written: the
// disk then has some sectors of it, and zeros in place of the others.
#pragma once

#include <rocksdb/env.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace maxsim::collection {

// Maps the path of a file to the number of its bytes to read. All other files are read whole.
using TornTails = std::map<std::string, uint64_t>;

// Returns an environment in which the files of `tails` appear shorter; the files themselves do not change. It must
// outlive the database that is opened in it.
std::unique_ptr<rocksdb::Env> MakeEnvWithoutTails(TornTails tails);

}  // namespace maxsim::collection
