#include "collection/log/torn_tails.h"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <utility>

namespace maxsim::collection {
namespace {

class ShortFile : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  ShortFile(std::unique_ptr<rocksdb::FSSequentialFile>&& file, uint64_t num_bytes)
      : FSSequentialFileOwnerWrapper(std::move(file)), left_(num_bytes) {}

  rocksdb::IOStatus Read(size_t count, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* debug) override {
    count = std::min<uint64_t>(count, left_);
    if (count == 0) {
      *result = rocksdb::Slice(scratch, 0);
      return rocksdb::IOStatus::OK();
    }
    rocksdb::IOStatus status = target()->Read(count, options, result, scratch, debug);
    if (status.ok()) left_ -= std::min<uint64_t>(result->size(), left_);
    return status;
  }
  rocksdb::IOStatus Skip(uint64_t count) override {
    count = std::min(count, left_);
    left_ -= count;
    return target()->Skip(count);
  }
  // RocksDB calls this only for direct I/O, which this database does not use.
  rocksdb::IOStatus PositionedRead(uint64_t /*offset*/, size_t /*count*/, const rocksdb::IOOptions& /*options*/,
                                   rocksdb::Slice* /*result*/, char* /*scratch*/,
                                   rocksdb::IODebugContext* /*debug*/) override {
    return rocksdb::IOStatus::NotSupported("direct I/O of a file with a torn tail");
  }

 private:
  uint64_t left_;
};

class FileSystemWithoutTails : public rocksdb::FileSystemWrapper {
 public:
  explicit FileSystemWithoutTails(TornTails tails)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), tails_(std::move(tails)) {}

  const char* Name() const override { return "FileSystemWithoutTails"; }

  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* result,
                                      rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = target()->NewSequentialFile(path, options, result, debug);
    const auto found = tails_.find(path);
    if (!status.ok() || found == tails_.end()) return status;
    *result = std::make_unique<ShortFile>(std::move(*result), found->second);
    return status;
  }
  rocksdb::IOStatus GetFileSize(const std::string& path, const rocksdb::IOOptions& options, uint64_t* num_bytes,
                                rocksdb::IODebugContext* debug) override {
    rocksdb::IOStatus status = target()->GetFileSize(path, options, num_bytes, debug);
    const auto found = tails_.find(path);
    if (status.ok() && found != tails_.end()) *num_bytes = std::min(*num_bytes, found->second);
    return status;
  }

 private:
  const TornTails tails_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> MakeEnvWithoutTails(TornTails tails) {
  return rocksdb::NewCompositeEnv(std::make_shared<FileSystemWithoutTails>(std::move(tails)));
}

}  // namespace maxsim::collection
