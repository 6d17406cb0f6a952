// Lists documents in the order of their ids, for Documents.Scroll.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/documents.pb.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/store/collection/collection.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// The default and the largest ScrollRequest.limit.
inline constexpr uint32_t kDefaultScrollDocuments = 100;
inline constexpr uint32_t kMaxScrollDocuments = 1'000;

// INVALID_ARGUMENT for a ScrollRequest.limit above kMaxScrollDocuments.
absl::Status CheckScrollLimit(uint64_t limit);
// Returns how many documents the request asks for.
uint32_t ScrollLimitOf(const v1::ScrollRequest& request);

// Returns the next page of documents of the snapshot. `live` gives the versions; if it is null, documents have none.
// `readers` limits the calls that read token vectors at the same time. Calls `check` now and then, and returns its
// error. Other errors are INVALID_ARGUMENT about a field of the request, those of CheckSequence and CheckGeneration,
// those of Get about reading documents, and the ABORTED of DocumentReader::CorrectVersions.
absl::StatusOr<v1::ScrollResponse> ScrollDocuments(const v1::ScrollRequest& request,
                                                   const store::Collection& collection,
                                                   const store::LiveDocuments* live, const RequestLimits& limits,
                                                   ConcurrencyLimit* readers, const StopCheck& check);

}  // namespace maxsim::service
