// The interface to the place that holds the objects of a backup: an S3 bucket, a folder or, in tests, memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::backup {

// An object that is being written. Not thread-safe. Unless Finish has succeeded, the destructor aborts the upload, and
// ignores errors. Without a call of Finish, the object does not appear. If Finish failed, the object may exist all the
// same, because the store may have completed the upload before the error.
class ObjectUpload {
 public:
  virtual ~ObjectUpload() = default;
  // Takes the next bytes of the object.
  virtual absl::Status Write(std::string_view bytes) = 0;
  // Makes the object appear. Call it once, after the last Write. Returns INTERNAL if the number of bytes is not the one
  // that was given to BeginUpload.
  virtual absl::Status Finish() = 0;
};

struct StoredObject {
  std::string key;
  uint64_t num_bytes = 0;

  friend bool operator==(const StoredObject&, const StoredObject&) = default;
};

// A store finds objects by their keys, such as "a/b.json", which are relative to the store's URL. SnapshotPathProblem
// (collection/partition/snapshot_path.h) must accept a key, so that it is also a valid file path. Thread-safe. Errors
// name the object.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Writes a small object. It appears complete or not at all, and replaces an object that has the same key.
  virtual absl::Status Put(const std::string& key, std::string_view bytes) = 0;

  // Begins to write an object of exactly `num_bytes`. The store must outlive the result. At most about two parts of an
  // upload are in memory at a time. A part has 16 MiB, or a ten-thousandth of the object if that is more.
  virtual absl::StatusOr<std::unique_ptr<ObjectUpload>> BeginUpload(const std::string& key, uint64_t num_bytes) = 0;

  // Returns `max_bytes` bytes of the object from `offset` on, or fewer if the object ends before: "" if it ends at or
  // before `offset`. NOT_FOUND if there is no such object.
  virtual absl::StatusOr<std::string> Read(const std::string& key, uint64_t offset, size_t max_bytes) = 0;

  // Returns the objects whose keys begin with `prefix`, in the order of their keys, but at most the first
  // `max_objects`.
  virtual absl::StatusOr<std::vector<StoredObject>> List(const std::string& prefix, size_t max_objects) = 0;

  // Returns the store's URL, for messages. It contains no secret.
  virtual const std::string& url() const = 0;
};

}  // namespace maxsim::backup
