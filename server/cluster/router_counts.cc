// Counts documents over the groups of a cluster: each group counts its own, and the router adds the counts up.
#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "server/cluster/groups/error_origin.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/parts/merge.h"
#include "server/cluster/parts/merge_counts.h"
#include "server/cluster/parts/scatter.h"
#include "server/cluster/parts/split.h"
#include "server/cluster/router_documents.h"
#include "server/service/call/call.h"
#include "server/service/call/call_spans.h"
#include "server/service/document_counts.h"
#include "server/service/request/translate.h"

namespace maxsim::cluster {
namespace {

// The maximum number of tries of a count, if the groups keep moving on to another generation.
constexpr int kMaxCountAttempts = 4;

// Returns an error of a group as the client's. An error of a group that is lost names it.
absl::Status CountErrorOf(const absl::Status& status, const std::string& group, bool names_generation) {
  if (!IsLost(status) || (names_generation && IsOtherGeneration(status))) return status;
  if (absl::IsUnavailable(status)) return WithOrigin(status, absl::StrCat("group ", group));
  // The details of another code would not fit this one.
  return absl::UnavailableError(absl::StrCat("group ", group, " does not answer: ", status.message()));
}

}  // namespace

template <typename Request, typename Response>
struct RouterDocuments::Counting {
  static constexpr bool kHasFacets = std::is_same_v<Request, v1::FacetsRequest>;

  explicit Counting(Rpc<Request, Response> of_groups) : rpc(of_groups) {}

  const Rpc<Request, Response> rpc;
  std::unique_ptr<service::Call<Response>> call;
  Request request;
  std::shared_ptr<const void> place;  // among the calls of Facets
  int num_attempts = 0;
  std::shared_ptr<const CollectionView> collection;  // of the attempt
};

template <typename Request, typename Response>
void RouterDocuments::Ask(std::shared_ptr<Counting<Request, Response>> counting) {
  constexpr bool kHasFacets = Counting<Request, Response>::kHasFacets;
  ++counting->num_attempts;
  service::Call<Response>& call = *counting->call;
  std::vector<CallTarget> targets;
  std::vector<std::shared_ptr<const Request>> requests;
  std::vector<AnswerCheck<Response>> checks;
  absl::Status status = Guarded([&] {
    auto found = deps_.membership->view()->Find(counting->request.collection());
    if (!found.ok()) return found.status();
    counting->collection = *std::move(found);
    const CollectionView& collection = *counting->collection;
    absl::Status wrong = service::CheckGeneration(counting->request.generation(), collection.name,
                                                  collection.info.has_live(), collection.generation);
    if (wrong.ok()) wrong = CheckMinSequence(counting->request.min_sequence(), collection);
    if constexpr (kHasFacets) {
      if (wrong.ok()) wrong = service::CheckFacetsLimit(counting->request.limit());
    }
    if (!wrong.ok()) return wrong;
    auto of_part = std::make_shared<Request>(counting->request);
    of_part->set_generation(collection.generation);
    if constexpr (kHasFacets) {
      // The most frequent values of all may be rare ones in each group, so that the groups send all that they have.
      if (collection.parts.size() > 1) of_part->set_limit(service::kMaxFacetValues);
    }
    for (const CollectionView::Part& part : collection.parts) {
      targets.push_back(part.target);
      requests.push_back(of_part);
      checks.emplace_back([of_part](const Response& answer) { return CheckCountAnswer(*of_part, answer); });
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return call.Finish(std::move(status));
  const GroupCallOptions options{.deadline = DeadlineOf(call.context),
                                 .may_hedge = !kHasFacets,  // Few calls of Facets run at a time.
                                 .cancelled = call.context.cancelled,
                                 .span = call.context.span.AsParent()};
  const Rpc<Request, Response> rpc = counting->rpc;
  Scatter<Request, Response>(deps_.environment, std::move(targets), std::move(requests), std::move(checks), options,
                             rpc,
                             [this, counting = std::move(counting)](std::vector<absl::StatusOr<Response>> answers) {
                               Gather(counting, std::move(answers));
                             });
}

template <typename Request, typename Response>
void RouterDocuments::Gather(const std::shared_ptr<Counting<Request, Response>>& counting,
                             std::vector<absl::StatusOr<Response>> answers) {
  const bool names_generation = counting->request.generation() != 0;
  const bool other_generation = std::any_of(answers.begin(), answers.end(), [](const absl::StatusOr<Response>& answer) {
    return IsOtherGeneration(answer.status());
  });
  // The groups have changed to another generation meanwhile. Refresh the view and try again.
  if (other_generation && !names_generation && counting->num_attempts < kMaxCountAttempts &&
      MonotonicNow() < counting->call->context.deadline) {
    return deps_.membership->RefreshThen([this, counting] {
      // If memory runs out, the destruction of the call answers it.
      Guarded([&] {
        Ask(counting);
        return absl::OkStatus();
      }).IgnoreError();
    });
  }
  counting->call->Finish(Guarded([&]() -> absl::StatusOr<Response> {
    const CollectionView& collection = *counting->collection;
    for (size_t part = 0; part < answers.size(); ++part) {
      if (answers[part].ok()) continue;
      return CountErrorOf(answers[part].status(), collection.parts[part].target.group->name(), names_generation);
    }
    if constexpr (Counting<Request, Response>::kHasFacets) {
      absl::StatusOr<Response> merged = MergeFacets(counting->request, collection, std::move(answers));
      if (!merged.ok()) return merged;
      if (absl::Status status = service::CheckFacetsSize(*merged, deps_.limits); !status.ok()) return status;
      return merged;
    } else {
      return MergeCounts(collection, answers);
    }
  }));
}

void RouterDocuments::Count(const v1::CountRequest& request, service::CallContext context,
                            service::Done<v1::CountResponse> done) {
  auto call = std::make_unique<service::Call<v1::CountResponse>>(deps_.metrics, std::move(context), std::move(done));
  service::DescribeCount(request.collection(), call->context.method, call->context.span);
  std::shared_ptr<Counting<v1::CountRequest, v1::CountResponse>> counting;
  absl::Status status = Guarded([&] {
    counting = std::make_shared<Counting<v1::CountRequest, v1::CountResponse>>(kCountRpc);
    counting->request = request;
    return CheckState();
  });
  if (!status.ok()) return call->Finish(std::move(status));
  counting->call = std::move(call);
  Ask(std::move(counting));
}

void RouterDocuments::Facets(const v1::FacetsRequest& request, service::CallContext context,
                             service::Done<v1::FacetsResponse> done) {
  auto call = std::make_unique<service::Call<v1::FacetsResponse>>(deps_.metrics, std::move(context), std::move(done));
  service::DescribeCount(request.collection(), call->context.method, call->context.span);
  std::shared_ptr<Counting<v1::FacetsRequest, v1::FacetsResponse>> counting;
  absl::Status status = Guarded([&] {
    counting = std::make_shared<Counting<v1::FacetsRequest, v1::FacetsResponse>>(kFacetsRpc);
    counting->request = request;
    if (absl::Status s = CheckState(); !s.ok()) return s;
    absl::StatusOr<std::shared_ptr<const void>> place = service::TakeFacetsPlace(facets_calls_);
    if (!place.ok()) return place.status();
    counting->place = *std::move(place);
    return absl::OkStatus();
  });
  if (!status.ok()) return call->Finish(std::move(status));
  counting->call = std::move(call);
  Ask(std::move(counting));
}

}  // namespace maxsim::cluster
