// Writes and reads single documents. Calls over gRPC and HTTP both come through this class, so that both obey the same
// rules.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/quantization_loss.h"
#include "maxsim/v1/documents.pb.h"
#include "server/observability/metrics.h"
#include "server/service/call/call.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/service/document_api_base.h"
#include "server/service/documents/document_counts.h"
#include "server/service/documents/document_delete.h"
#include "server/service/documents/document_read.h"
#include "server/service/documents/document_write.h"
#include "server/service/documents/write_claims.h"
#include "server/service/documents/write_guard.h"
#include "server/service/request/text_encoding.h"
#include "server/store/collection_store.h"

namespace maxsim::service {

// The class is thread-safe.
class DocumentService : public DocumentApiBase {
 public:
  // All must outlive the service and every call.
  DocumentService(const store::CollectionStore* store, TextEncoding* texts, Metrics* metrics,
                  const RequestLimits& limits)
      : DocumentApiBase(metrics, limits), store_(store), texts_(texts) {}

  // Validates the documents on the calling thread, has texts encoded, hands the documents to the live collection, and
  // calls `done` exactly once. Calls `done` before it returns if it has neither asked an encoder nor handed documents
  // over; otherwise on a thread of the collection or of TextEncoding, which `done` must not block. Errors as in
  // documents.proto. If the call is cancelled or its deadline passes before its documents are handed over, none is
  // written; after that, all are.
  void Upsert(v1::UpsertRequest request, CallContext context, Done<v1::UpsertResponse> done,
              Submitted submitted = nullptr) override;

  // Deletes documents by their ids. Errors, threads and deadlines are those of Upsert. With a filter, first finds the
  // documents on the calling thread (document_delete.h). It then returns RESOURCE_EXHAUSTED with RetryInfo while
  // kMaxMatchingDeletes such calls are in progress, and UNAVAILABLE with RetryInfo while the collection's stream is
  // lost.
  void Delete(const v1::DeleteRequest& request, CallContext context, Done<v1::DeleteResponse> done) override;

  // Returns stored documents. With return_tokens, may block while it reads files and devices, and returns
  // RESOURCE_EXHAUSTED with RetryInfo while too many calls do so. Returns INVALID_ARGUMENT if the answer would be
  // larger than limits.max_answer_bytes, and UNAVAILABLE with RetryInfo if documents are replaced faster than they are
  // read.
  void Get(const v1::GetRequest& request, CallContext context, Done<v1::GetResponse> done) override;
  // Does the work of Get without recording the call.
  absl::StatusOr<v1::GetResponse> GetNow(const v1::GetRequest& request, const CallContext& context);

  // Lists a page of documents from the current snapshot (document_scroll.h). With return_tokens, may block as Get does.
  void Scroll(const v1::ScrollRequest& request, CallContext context, Done<v1::ScrollResponse> done) override;

  // Count in the collection's current snapshot (document_counts.h).
  void Count(const v1::CountRequest& request, CallContext context, Done<v1::CountResponse> done) override;
  void Facets(const v1::FacetsRequest& request, CallContext context, Done<v1::FacetsResponse> done) override;

  bool HasIntIds(const Caller& caller, std::string_view collection) const override;

 private:
  // A live collection and its current snapshot.
  struct Target {
    std::shared_ptr<store::LiveDocuments> live;
    std::shared_ptr<const store::Collection> collection;
  };
  struct UpsertCall;

  absl::Status CheckCollectionField(const std::string& name) const;
  // Finds the collection of a call that reads. Also returns the error of CheckState.
  absl::StatusOr<std::shared_ptr<const store::Collection>> FindToRead(const std::string& name) const;
  absl::StatusOr<Target> FindTarget(const std::string& name) const;
  // Replaces target.collection by the latest snapshot. Returns UNAVAILABLE if the name now belongs to another
  // collection.
  absl::Status FindLatest(const std::string& name, Target& target) const;
  absl::Status Prepare(UpsertCall& call) const;
  // Checks that the call replaces no documents of a snapshot that it may not see.
  absl::Status CheckReplaced(const UpsertCall& call, const store::Collection& collection) const;
  absl::Status CheckEncoder(const store::Collection& collection) const;
  void Encode(std::unique_ptr<UpsertCall> call);
  void Submit(std::unique_ptr<UpsertCall> call);
  // Counts the tokens of a written request that INT8 has distorted too much, and logs them at most once a minute.
  void NoteLoss(const std::string& collection, const collection::QuantizationLoss& loss);
  void DeleteMatching(const v1::DeleteRequest& request, std::unique_ptr<Call<v1::DeleteResponse>> call);
  // For a call that has `visible` (a filter for what it may see): claims the ids of its deletes (WriteClaims), and then
  // leaves out those that are no longer visible. Returns the claim. Returns null if the call has no `visible`, or if
  // `visible` names only slots (WithoutSlots).
  absl::StatusOr<std::shared_ptr<const void>> ClaimDeletes(const v1::DeleteRequest& request, const StopCheck& check,
                                                           Target& target, GuardedDeletes& deletes);
  absl::StatusOr<std::vector<store::Write>> ToDeletes(const v1::DeleteRequest& request,
                                                      const DocumentRules& rules) const;
  // Returns the live collection, which knows the versions of its documents. Returns null if `collection` is not live,
  // because documents then have no versions.
  std::shared_ptr<store::LiveDocuments> VersionsOf(const store::Collection& collection) const;
  absl::StatusOr<v1::GetResponse> Read(const v1::GetRequest& request) const;

  const store::CollectionStore* const store_;
  TextEncoding* const texts_;
  WriteClaims claims_;
  mutable ConcurrencyLimit readers_ = ReaderLimit();
  ConcurrencyLimit passes_ = PassLimit(kMaxWholePasses);  // calls of Facets and Scroll
  ConcurrencyLimit matching_deletes_ = MatchingDeleteLimit();
  std::atomic<int64_t> next_loss_line_ns_{std::numeric_limits<int64_t>::min()};
};

}  // namespace maxsim::service
