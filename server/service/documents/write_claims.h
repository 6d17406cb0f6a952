// Keeps two tenants from writing one id at the same time. A tenant's write is first checked against the stored
// documents (write_guard.h). Between this check and the write, no other tenant may write the id, so the second write is
// refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "collection/manifest.h"
#include "maxsim/v1/documents.pb.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// Thread-safe. Writes with equal filters may claim the same id: they may replace each other's documents anyway. Filters
// are compared without slots (WithoutSlots).
class WriteClaims {
 public:
  // Claims the ids of a write that has `visible` (a filter for what it may see). Claim them before the write is
  // checked. The ids are free again when the last copy of the result is destroyed: keep it until the written documents
  // can be seen. Returns RESOURCE_EXHAUSTED, with RetryInfo, if a write with another filter has claimed one of the ids.
  // A claim may outlive this object.
  absl::StatusOr<std::shared_ptr<const void>> Claim(const v1::UpsertRequest& request);
  // Claims the ids of writes, which are of this type.
  absl::StatusOr<std::shared_ptr<const void>> Claim(const std::string& collection, const v1::Filter& visible,
                                                    collection::IdType id_type, absl::Span<const store::Write> writes);

 private:
  // The writes that hold an id. All have the same filter.
  struct Holders {
    const std::string* visible = nullptr;  // a key of Table::filters
    int64_t count = 0;
  };
  struct Table {
    Mutex mutex;
    std::unordered_map<std::string, Holders> by_id ABSL_GUARDED_BY(mutex);
    // The serialized filters of the writes in progress, with the number of writes that have each. All writes with a
    // filter share one copy, because it may be much longer than an id.
    std::unordered_map<std::string, int64_t> filters ABSL_GUARDED_BY(mutex);
  };
  class Claimed;

  // `id_of` returns an id by its index in the request, as a key.
  absl::StatusOr<std::shared_ptr<const void>> ClaimAll(const std::string& collection, const v1::Filter& visible,
                                                       int count, absl::FunctionRef<std::string(int)> id_of);

  const std::shared_ptr<Table> table_ = std::make_shared<Table>();
};

}  // namespace maxsim::service
