// An object store in memory, for tests.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backup/store/object_store.h"
#include "base/mutex.h"
#include "base/text.h"

namespace maxsim::backup {

// An object store in memory. Thread-safe, except that a test may change `objects` and `fails_at` only while no other
// thread uses the store.
class MemoryStore final : public ObjectStore {
 public:
  std::map<std::string, std::string> objects;
  std::string fails_at;  // the key whose upload fails at its end, with UNAVAILABLE

  absl::Status Put(const std::string& key, std::string_view bytes) override {
    const MutexLock lock(&mutex_);
    if (key == fails_at) return absl::UnavailableError(Cat(key, ": no answer"));
    objects[key] = std::string(bytes);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<ObjectUpload>> BeginUpload(const std::string& key, uint64_t num_bytes) override {
    return std::make_unique<Upload>(*this, key, num_bytes);
  }

  absl::StatusOr<std::string> Read(const std::string& key, uint64_t offset, size_t max_bytes) override {
    const MutexLock lock(&mutex_);
    const auto found = objects.find(key);
    if (found == objects.end()) return absl::NotFoundError(Cat(key, ": there is no such object"));
    return offset >= found->second.size() ? std::string() : found->second.substr(offset, max_bytes);
  }

  absl::StatusOr<std::vector<StoredObject>> List(const std::string& prefix, size_t max_objects) override {
    const MutexLock lock(&mutex_);
    std::vector<StoredObject> found;
    for (const auto& [key, bytes] : objects) {
      if (key.starts_with(prefix) && found.size() < max_objects) found.push_back({key, bytes.size()});
    }
    return found;
  }

  const std::string& url() const override { return url_; }

 private:
  class Upload final : public ObjectUpload {
   public:
    Upload(MemoryStore& store, std::string key, uint64_t num_bytes)
        : store_(store), key_(std::move(key)), num_bytes_(num_bytes) {}
    absl::Status Write(std::string_view bytes) override {
      bytes_.append(bytes);
      return absl::OkStatus();
    }
    absl::Status Finish() override {
      if (bytes_.size() != num_bytes_) return absl::InternalError("another size was announced");
      return store_.Put(key_, bytes_);
    }

   private:
    MemoryStore& store_;
    const std::string key_;
    const uint64_t num_bytes_;
    std::string bytes_;
  };

  Mutex mutex_;
  const std::string url_ = "memory://store";
};

}  // namespace maxsim::backup
