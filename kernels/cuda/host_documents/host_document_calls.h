// Calls over documents outside of the device's memory. The documents are copied to the device in batches, and each
// batch is scored while the next is copied. One array gathers the scores of all batches, and selection follows as for
// documents in device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/call/paths/alignment.h"
#include "kernels/cuda/call/planning/call_context.h"
#include "kernels/cuda/host_documents/batch_plan.h"
#include "kernels/cuda/host_documents/document_transfer.h"
#include "kernels/cuda/host_documents/host_documents.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/maxsim.h"

namespace maxsim::cuda {

// Owns an executor's document batches and its cache of documents. Not thread-safe.
class HostDocumentCalls {
 public:
  // Allocates on `device`, which must be the current one, must outlive the result, and must have a stream_block_bytes
  // above 0. Returns RESOURCE_EXHAUSTED if there is too little memory.
  static absl::StatusOr<std::unique_ptr<HostDocumentCalls>> Create(const Device* device);

  // Runs Executor::TopK for a call that has passed its checks. Waits for everything that it started, after an error
  // too.
  absl::Status TopK(const CallContext& context, const HostDocuments& documents, absl::Span<const Query> queries,
                    absl::Span<std::vector<Scored>> results);

  // Runs Executor::Align for a call that has passed its checks. `alignment` is that of the query.
  absl::Status Align(const CallContext& context, const Alignment& alignment, const HostDocuments& documents,
                     const Query& query, absl::Span<const uint32_t> ordinals, absl::Span<TokenMatch> matches);

  // Returns the bytes copied over the link, and how many listed documents were and were not in the cache, since the
  // last call of TakeCounts.
  TransferCounts TakeCounts() { return transfer_->TakeCounts(); }

 private:
  explicit HostDocumentCalls(std::unique_ptr<DocumentTransfer> transfer) : transfer_(std::move(transfer)) {}

  // A range of consecutive documents.
  struct Range {
    int64_t first = 0;
    int64_t count = 0;
  };
  static std::optional<Range> RangeOf(const HostDocuments& documents, const Query& query);
  absl::StatusOr<size_t> RunScan(const CallContext& context, const HostDocuments& documents, const Range& range,
                                 absl::Span<const Query> queries, absl::Span<std::vector<Scored>> results);
  absl::Status ScoreScan(const CallContext& context, const HostDocuments& documents, const Range& range);
  absl::StatusOr<size_t> RunLists(const CallContext& context, const HostDocuments& documents,
                                  absl::Span<const Query> queries, absl::Span<std::vector<Scored>> results);
  absl::Status ScoreLists(const CallContext& context, const HostDocuments& documents);
  absl::Status RunSlice(const CallContext& context, absl::FunctionRef<absl::Status()> score);

  const std::unique_ptr<DocumentTransfer> transfer_;
  ListPasses list_passes_;          // of the slice that RunLists runs
  std::vector<Query> by_location_;  // the queries of that slice, whose candidates are locations in document batches
  std::vector<Query> scans_;        // the queries that RunScan runs, without lists
};

}  // namespace maxsim::cuda
