// Where the objects of a backup lie: in an S3 bucket, in a folder or, in tests, in memory.
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

// An object that is being written. Not thread-safe. The destructor gives the upload up unless Finish succeeded: then
// there is no object.
class ObjectUpload {
 public:
  virtual ~ObjectUpload() = default;
  // Takes the next bytes of the object.
  virtual absl::Status Write(std::string_view bytes) = 0;
  // Makes the object appear. Call it once, after all announced bytes.
  virtual absl::Status Finish() = 0;
};

struct StoredObject {
  std::string key;
  uint64_t num_bytes = 0;

  friend bool operator==(const StoredObject&, const StoredObject&) = default;
};

// Objects by key, such as "a/b.json". Keys are relative to the URL of the store. They meet SnapshotPathProblem
// (collection/partition/snapshot_path.h), so that they are valid file names, too. Thread-safe. Errors name the object.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Writes a small object. It appears complete or not at all, and replaces an older one of its key.
  virtual absl::Status Put(const std::string& key, std::string_view bytes) = 0;

  // Begins to write an object of exactly `num_bytes`. The store must outlive the result. At most about two parts of a
  // multipart upload (16 MiB each, or a five-thousandth of the object if that is more) are in memory at a time.
  virtual absl::StatusOr<std::unique_ptr<ObjectUpload>> BeginUpload(const std::string& key, uint64_t num_bytes) = 0;

  // Returns the bytes from `offset` on: `max_bytes` of them, or less where the object ends. NOT_FOUND if there is no
  // such object.
  virtual absl::StatusOr<std::string> Read(const std::string& key, uint64_t offset, size_t max_bytes) = 0;

  // Returns the first `max_objects` of the objects whose keys begin with `prefix`, in the order of their keys.
  virtual absl::StatusOr<std::vector<StoredObject>> List(const std::string& prefix, size_t max_objects) = 0;

  // Returns the URL for messages. It holds no secret.
  virtual const std::string& url() const = 0;
};

}  // namespace maxsim::backup
