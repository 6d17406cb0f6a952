// Empty collections, for inline documents of requests that name none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// Keeps one empty F16 collection per dimension, so that requests of the same dimension can share batches. Thread-safe.
class InlineCollections {
 public:
  // Returns the collection for vectors of `dim` dimensions (kMinDim to kMaxDim). It has the name "" and the generation
  // 0.
  absl::StatusOr<std::shared_ptr<const store::Collection>> For(int32_t dim);

 private:
  Mutex mutex_;
  std::map<int32_t, std::shared_ptr<const store::Collection>> by_dim_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace maxsim::service
