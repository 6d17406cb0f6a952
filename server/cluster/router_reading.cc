// Counts and lists documents over the groups of a cluster. Each group answers for its own documents, and the router
// adds up the counts and merges the pages.
#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/parts/error_origin.h"
#include "server/cluster/parts/merge.h"
#include "server/cluster/parts/merge_counts.h"
#include "server/cluster/parts/merge_scroll.h"
#include "server/cluster/parts/restriction.h"
#include "server/cluster/parts/scatter.h"
#include "server/cluster/parts/split.h"
#include "server/cluster/router_documents.h"
#include "server/service/call/call.h"
#include "server/service/call/call_spans.h"
#include "server/service/documents/document_counts.h"
#include "server/service/documents/document_scroll.h"
#include "server/service/request/translate.h"

namespace maxsim::cluster {
namespace {

// The maximum number of times that a call is tried if the groups keep changing to other generations or slots.
constexpr int kMaxReadingAttempts = 4;

// Turns an error of a group into the client's error. If the group is lost, the error names it.
absl::Status GroupErrorOf(const absl::Status& status, const std::string& group, bool names_generation) {
  if (!IsLost(status) || (names_generation && IsOtherGeneration(status))) return status;
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))
    return WithOrigin(status, absl::StrCat("group ", group));
  // The details belong to an error with another code, so they are dropped.
  return absl::UnavailableError(absl::StrCat("group ", group, " does not answer: ", status.message()));
}

absl::Status CheckLimit(const v1::CountRequest&) { return absl::OkStatus(); }
absl::Status CheckLimit(const v1::FacetsRequest& request) { return service::CheckFacetsLimit(request.limit()); }
absl::Status CheckLimit(const v1::ScrollRequest& request) { return service::CheckScrollLimit(request.limit()); }

// Return a check of a group's answer. `of_part` is the group's part of the request, and must not be null.
template <typename Request, typename Response>
AnswerCheck<Response> CheckOf(std::shared_ptr<const Request> of_part, const CollectionView&) {
  return [of_part = std::move(of_part)](const Response& answer) { return CheckCountAnswer(*of_part, answer); };
}

template <>
AnswerCheck<v1::ScrollResponse> CheckOf(std::shared_ptr<const v1::ScrollRequest> of_part,
                                        const CollectionView& collection) {
  const StoredShape shape{.storage = collection.info.storage(), .dim = collection.info.dim()};
  return [of_part = std::move(of_part), shape, has_int_ids = collection.has_int_ids()](
             const v1::ScrollResponse& answer) { return CheckScrollAnswer(*of_part, has_int_ids, shape, answer); };
}

// Return the answer to the client, merged from the groups' answers. All of them must be OK.
absl::StatusOr<v1::CountResponse> Merge(const v1::CountRequest&, const CollectionView& collection,
                                        std::vector<absl::StatusOr<v1::CountResponse>> answers,
                                        const service::RequestLimits&) {
  return MergeCounts(collection, answers);
}

absl::StatusOr<v1::FacetsResponse> Merge(const v1::FacetsRequest& request, const CollectionView& collection,
                                         std::vector<absl::StatusOr<v1::FacetsResponse>> answers,
                                         const service::RequestLimits& limits) {
  absl::StatusOr<v1::FacetsResponse> merged = MergeFacets(request, collection, std::move(answers));
  if (!merged.ok()) return merged;
  if (absl::Status status = service::CheckFacetsSize(*merged, limits); !status.ok()) return status;
  return merged;
}

absl::StatusOr<v1::ScrollResponse> Merge(const v1::ScrollRequest& request, const CollectionView& collection,
                                         std::vector<absl::StatusOr<v1::ScrollResponse>> answers,
                                         const service::RequestLimits& limits) {
  return MergeScrolls(request, collection, std::move(answers), limits.max_answer_bytes);
}

}  // namespace

template <typename Request, typename Response>
struct RouterDocuments::Reading {
  // Whether the call looks at all documents that match. Only a few such calls run at the same time.
  static constexpr bool kIsPass = !std::is_same_v<Request, v1::CountRequest>;

  explicit Reading(Rpc<Request, Response> of_groups) : rpc(of_groups) {}

  const Rpc<Request, Response> rpc;
  std::unique_ptr<service::Call<Response>> call;
  Request request;
  std::shared_ptr<const void> place;  // of a pass
  int num_attempts = 0;
  std::shared_ptr<const CollectionView> collection;  // of the attempt
};

template <typename Request, typename Response>
void RouterDocuments::Ask(std::shared_ptr<Reading<Request, Response>> reading) {
  ++reading->num_attempts;
  service::Call<Response>& call = *reading->call;
  std::vector<CallTarget> targets;
  std::vector<std::shared_ptr<const Request>> requests;
  std::vector<AnswerCheck<Response>> checks;
  absl::Status status = Guarded([&] {
    auto found = deps_.membership->view()->Find(reading->request.collection());
    if (!found.ok()) return found.status();
    reading->collection = *std::move(found);
    const CollectionView& collection = *reading->collection;
    absl::Status wrong = CheckMinSequence(reading->request.min_sequence(), collection);
    if (wrong.ok()) {
      wrong = service::CheckGeneration(reading->request.generation(), collection.name, collection.info.has_live(),
                                       collection.generation);
    }
    if (wrong.ok()) wrong = CheckLimit(reading->request);
    if (!wrong.ok()) return wrong;
    Request of_any = reading->request;
    of_any.set_generation(collection.generation);
    if constexpr (std::is_same_v<Request, v1::FacetsRequest>) {
      // A value that is frequent in total may be rare in each group. So each group sends all of its values.
      if (collection.parts.size() > 1) of_any.set_limit(service::kMaxFacetValues);
    }
    for (const CollectionView::Part& part : collection.parts) {
      auto of_part = std::make_shared<Request>(of_any);
      RestrictToSlots(part, *of_part);
      targets.push_back(part.target);
      requests.push_back(of_part);
      checks.push_back(CheckOf<Request, Response>(std::move(of_part), collection));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return call.Finish(std::move(status));
  const GroupCallOptions options{.deadline = DeadlineOf(call.context),
                                 .may_hedge = !Reading<Request, Response>::kIsPass,
                                 .cancelled = call.context.cancelled,
                                 .span = call.context.span.AsParent()};
  const Rpc<Request, Response> rpc = reading->rpc;
  Scatter<Request, Response>(deps_.environment, std::move(targets), std::move(requests), std::move(checks), options,
                             rpc, [this, reading = std::move(reading)](std::vector<absl::StatusOr<Response>> answers) {
                               Gather(reading, std::move(answers));
                             });
}

template <typename Request, typename Response>
void RouterDocuments::Gather(const std::shared_ptr<Reading<Request, Response>>& reading,
                             std::vector<absl::StatusOr<Response>> answers) {
  const bool names_generation = reading->request.generation() != 0;
  const bool has_changed = std::any_of(answers.begin(), answers.end(), [](const absl::StatusOr<Response>& answer) {
    return IsOtherView(answer.status());
  });
  // The groups have changed to another generation or other slots since the view was made. Refresh the view and try
  // again.
  if (has_changed && !names_generation && reading->num_attempts < kMaxReadingAttempts &&
      MonotonicNow() < reading->call->context.deadline) {
    return deps_.membership->RefreshThen([this, reading] {
      // If memory runs out, the destructor of the call sends its answer.
      Guarded([&] {
        Ask(reading);
        return absl::OkStatus();
      }).IgnoreError();
    });
  }
  reading->call->Finish(Guarded([&]() -> absl::StatusOr<Response> {
    const CollectionView& collection = *reading->collection;
    for (size_t part = 0; part < answers.size(); ++part) {
      if (answers[part].ok()) continue;
      return GroupErrorOf(answers[part].status(), collection.parts[part].target.group->name(), names_generation);
    }
    return Merge(reading->request, collection, std::move(answers), deps_.limits);
  }));
}

template <typename Request, typename Response>
void RouterDocuments::Begin(const Request& request, service::CallContext context, service::Done<Response> done,
                            Rpc<Request, Response> rpc) {
  auto call = std::make_unique<service::Call<Response>>(deps_.metrics, std::move(context), std::move(done));
  service::DescribeCount(request.collection(), call->context.method, call->context.span);
  std::shared_ptr<Reading<Request, Response>> reading;
  absl::Status status = Guarded([&] {
    reading = std::make_shared<Reading<Request, Response>>(rpc);
    reading->request = request;
    if (absl::Status s = CheckState(); !s.ok() || !Reading<Request, Response>::kIsPass) return s;
    absl::StatusOr<std::shared_ptr<const void>> place = passes_.Take();
    if (!place.ok()) return place.status();
    reading->place = *std::move(place);
    return absl::OkStatus();
  });
  if (!status.ok()) return call->Finish(std::move(status));
  reading->call = std::move(call);
  Ask(std::move(reading));
}

void RouterDocuments::Scroll(const v1::ScrollRequest& request, service::CallContext context,
                             service::Done<v1::ScrollResponse> done) {
  Begin(request, std::move(context), std::move(done), kScrollRpc);
}

void RouterDocuments::Count(const v1::CountRequest& request, service::CallContext context,
                            service::Done<v1::CountResponse> done) {
  Begin(request, std::move(context), std::move(done), kCountRpc);
}

void RouterDocuments::Facets(const v1::FacetsRequest& request, service::CallContext context,
                             service::Done<v1::FacetsResponse> done) {
  Begin(request, std::move(context), std::move(done), kFacetsRpc);
}

}  // namespace maxsim::cluster
