// Writes and reads documents through the groups that hold their slots.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/router_scorer.h"
#include "server/service/api.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/document_api_base.h"
#include "server/service/documents/document_counts.h"
#include "server/service/documents/document_delete.h"

namespace maxsim::cluster {

// The maximum number of calls of Facets and Scroll in progress. A call of Facets holds up to 34 MB of values per
// group (service::kMaxFacetValues), and a call of Scroll holds a page of up to limits.max_answer_bytes per group.
inline constexpr int kMaxRouterPasses = 8;

// The class is thread-safe. If a call concerns several groups, each group carries out its part independently. If a
// group fails, the writes of the other groups stay, and the error says so. The call may be repeated.
class RouterDocuments : public service::DocumentApiBase {
 public:
  explicit RouterDocuments(const RouterDependencies& dependencies)
      : DocumentApiBase(dependencies.metrics, dependencies.limits), deps_(dependencies) {}

  // Calls `submitted` only when all documents are written. Before that it is not certain that the writes of a later
  // call come after the writes of this call.
  void Upsert(v1::UpsertRequest request, service::CallContext context, service::Done<v1::UpsertResponse> done,
              Submitted submitted = nullptr) override;
  void Delete(const v1::DeleteRequest& request, service::CallContext context,
              service::Done<v1::DeleteResponse> done) override;
  // The calls that read are in router_reading.cc.
  void Get(const v1::GetRequest& request, service::CallContext context, service::Done<v1::GetResponse> done) override;
  // Scroll, Count and Facets ask every group that holds a part of the collection.
  void Scroll(const v1::ScrollRequest& request, service::CallContext context,
              service::Done<v1::ScrollResponse> done) override;
  void Count(const v1::CountRequest& request, service::CallContext context,
             service::Done<v1::CountResponse> done) override;
  void Facets(const v1::FacetsRequest& request, service::CallContext context,
              service::Done<v1::FacetsResponse> done) override;
  bool HasIntIds(const service::Caller& caller, std::string_view collection) const override;

 private:
  // A call that reads, counts or lists, and the state of its current attempt.
  template <typename Request, typename Response>
  struct Reading;
  template <typename Request, typename Response>
  void Begin(const Request& request, service::CallContext context, service::Done<Response> done,
             Rpc<Request, Response> rpc);
  template <typename Request, typename Response>
  void Ask(std::shared_ptr<Reading<Request, Response>> reading);
  template <typename Request, typename Response>
  void Gather(const std::shared_ptr<Reading<Request, Response>>& reading,
              std::vector<absl::StatusOr<Response>> answers);

  absl::StatusOr<std::shared_ptr<const CollectionView>> FindLive(const std::string& name) const;
  // Returns the error of CheckState or of FindLive if there is one, else the result of calling `partition` with the
  // collection.
  absl::Status PartitionWrite(const std::string& name,
                              const std::function<absl::Status(const CollectionView&)>& partition) const;

  // A delete with a filter, and the state of its current attempt (router_deleting.cc).
  struct Deleting;
  // Sends a delete with a filter to all groups: each finds and deletes its own documents.
  void DeleteMatching(const v1::DeleteRequest& request, std::shared_ptr<service::Call<v1::DeleteResponse>> call);
  void AskToDelete(const std::shared_ptr<Deleting>& deleting);
  // If groups failed only because they no longer hold the slots that they were asked about, adds up what the other
  // groups did, and asks all groups again with a fresh view. Returns false, and does nothing, if groups failed for
  // other reasons or not at all, if this was the last attempt, or if the deadline has passed.
  bool DeleteAgain(const std::shared_ptr<Deleting>& deleting,
                   const std::vector<absl::StatusOr<v1::DeleteResponse>>& answers);
  absl::Time DeadlineOf(const service::CallContext& context) const;

  const RouterDependencies deps_;
  service::ConcurrencyLimit passes_ = service::PassLimit(kMaxRouterPasses);
  // Limits deletes with a filter. The router runs as many at a time as each server does. If it ran more, one group
  // could refuse its part of a delete that another group has carried out.
  service::ConcurrencyLimit matching_deletes_ = service::MatchingDeleteLimit();
};

}  // namespace maxsim::cluster
