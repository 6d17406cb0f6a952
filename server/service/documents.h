// Writes and reads single documents, whatever the transport: gRPC and HTTP both come through here, so that both obey
// the same rules.
#pragma once

#include <atomic>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "maxsim/v1/documents.pb.h"
#include "server/observability/metrics.h"
#include "server/service/document_write.h"
#include "server/service/limits.h"
#include "server/service/rerank_service.h"
#include "server/service/text_encoding.h"
#include "server/store/collection_store.h"

namespace maxsim::service {

// The class is thread-safe.
class DocumentService {
 public:
  template <typename Response>
  using Done = absl::AnyInvocable<void(absl::StatusOr<Response>)>;
  using Submitted = absl::AnyInvocable<void()>;

  // All must outlive the service and every call.
  DocumentService(const store::CollectionStore* store, TextEncoding* texts, Metrics* metrics,
                  const RequestLimits& limits)
      : store_(store), texts_(texts), metrics_(metrics), limits_(limits) {}

  const RequestLimits& limits() const { return limits_; }

  // Validates on the calling thread, has texts encoded, hands the documents to the live collection, and calls `done`
  // exactly once: before it returns where nothing was handed over and no encoder asked, else from a thread of the
  // collection or of TextEncoding, which `done` must not hold up. Errors as in documents.proto. A call that is
  // cancelled, or whose deadline passes, before its documents are handed over writes none; later it writes all of them.
  // Every call is counted and timed.
  //
  // `submitted` (may be null) is called at most once, when the documents have been handed over: those of a call that
  // comes then are written after them. An error that `done` gets before this means that no later call of whoever waits
  // for it can have come between, so that he may repeat the call.
  void Upsert(v1::UpsertRequest request, CallContext context, Done<v1::UpsertResponse> done,
              Submitted submitted = nullptr);

  // Does so for ids that are to be taken away.
  void Delete(const v1::DeleteRequest& request, CallContext context, Done<v1::DeleteResponse> done);

  // Returns the documents as they are stored. With return_tokens it may read files and devices, and blocks for that;
  // RESOURCE_EXHAUSTED with RetryInfo while others do. INVALID_ARGUMENT where the answer would be larger than
  // limits.max_answer_bytes. A document's version is that of the last write of its id, which may be one that comes
  // after the answer's sequence. Every call is counted and timed.
  absl::StatusOr<v1::GetResponse> Get(const v1::GetRequest& request, const CallContext& context);

  // Returns whether the ids of a collection are integers; false for one that is not served.
  bool HasIntIds(std::string_view collection) const;

  // Counts a call that never came here.
  void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) const;

  // Calls that come while the server loads or drains are UNAVAILABLE; what was accepted is not touched. The first state
  // is kLoading.
  void SetState(RerankService::State state) { state_ = state; }

 private:
  // A live collection, and what it is now.
  struct Target {
    std::shared_ptr<store::LiveDocuments> live;
    std::shared_ptr<const store::Collection> collection;
  };
  template <typename Response>
  struct Call;
  struct UpsertCall;

  absl::Status CheckState() const;
  absl::Status CheckCollectionField(const std::string& name) const;
  absl::StatusOr<Target> FindTarget(const std::string& name) const;
  absl::Status Prepare(UpsertCall& call) const;
  absl::Status CheckEncoder(const store::Collection& collection) const;
  void Encode(std::unique_ptr<UpsertCall> call);
  void Submit(std::unique_ptr<UpsertCall> call);
  absl::StatusOr<std::vector<store::Write>> ToDeletes(const v1::DeleteRequest& request,
                                                      const DocumentRules& rules) const;
  absl::StatusOr<v1::GetResponse> Read(const v1::GetRequest& request) const;

  const store::CollectionStore* const store_;
  TextEncoding* const texts_;
  Metrics* const metrics_;
  const RequestLimits limits_;
  mutable std::atomic<int> num_reading_{0};
  std::atomic<RerankService::State> state_{RerankService::State::kLoading};
};

}  // namespace maxsim::service
