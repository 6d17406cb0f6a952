// Reads, counts and lists documents over the groups of a cluster. Each group answers for its own documents, and the
// router adds up the counts and merges the lists.
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/guard.h"
#include "server/cluster/fresh_view.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/parts/check_documents.h"
#include "server/cluster/parts/clients_index.h"
#include "server/cluster/parts/deal_documents.h"
#include "server/cluster/parts/error_origin.h"
#include "server/cluster/parts/merge.h"
#include "server/cluster/parts/merge_counts.h"
#include "server/cluster/parts/merge_documents.h"
#include "server/cluster/parts/merge_scroll.h"
#include "server/cluster/parts/restriction.h"
#include "server/cluster/parts/scatter.h"
#include "server/cluster/parts/split.h"
#include "server/cluster/router_documents.h"
#include "server/cluster/router_writes.h"
#include "server/service/call/call.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/documents/document_counts.h"
#include "server/service/documents/document_scroll.h"
#include "server/service/request/translate.h"

namespace maxsim::cluster {
namespace {

void Describe(const v1::GetRequest& request, const service::CallContext& context) {
  service::DescribeDocuments(request.collection(), context.method,
                             request.string_ids().ids_size() + request.int_ids().ids_size(), context.span);
}

template <typename Request>
void Describe(const Request& request, const service::CallContext& context) {
  service::DescribeCount(request.collection(), context.method, context.span);
}

// A Get request has no field for a generation.
bool NamesGeneration(const v1::GetRequest&) { return false; }

template <typename Request>
bool NamesGeneration(const Request& request) {
  return request.generation() != 0;
}

absl::Status CheckLimit(const v1::CountRequest&) { return absl::OkStatus(); }
absl::Status CheckLimit(const v1::FacetsRequest& request) { return service::CheckFacetsLimit(request.limit()); }
absl::Status CheckLimit(const v1::ScrollRequest& request) { return service::CheckScrollLimit(request.limit()); }

// Check a request, and add to `sent` one request for each group that may have documents for the answer.
absl::Status Partition(const v1::GetRequest& request, const CollectionView& collection,
                       const service::RequestLimits& limits, DealtCall<v1::GetRequest>& sent) {
  const auto fill = [&](v1::GetRequest& of_part) {
    of_part.set_return_tokens(request.return_tokens());
    of_part.set_min_sequence(request.min_sequence());
  };
  return PartitionRequest(request, collection, limits, service::kMaxGetIds, fill, sent);
}

template <typename Request>
absl::Status Partition(const Request& request, const CollectionView& collection, const service::RequestLimits&,
                       DealtCall<Request>& sent) {
  absl::Status wrong = service::CheckGeneration(request.generation(), collection.name, collection.info.has_live(),
                                                collection.generation);
  if (wrong.ok()) wrong = CheckLimit(request);
  if (!wrong.ok()) return wrong;
  Request of_any = request;
  of_any.set_generation(collection.generation);
  if constexpr (std::is_same_v<Request, v1::FacetsRequest>) {
    // A value that is frequent overall may be rare in each group. So each group sends all of its values.
    if (collection.parts.size() > 1) of_any.set_limit(service::kMaxFacetValues);
  }
  for (const CollectionView::Part& part : collection.parts) {
    auto of_part = std::make_shared<Request>(of_any);
    RestrictToSlots(part, *of_part);
    sent.Add(part, {}, std::move(of_part));
  }
  return absl::OkStatus();
}

StoredShape ShapeOf(const CollectionView& collection) {
  return {.storage = collection.info.storage(), .dim = collection.info.dim()};
}

// Return a check of a group's answer. `of_part` is the group's part of the request, and must not be null.
template <typename Request, typename Response>
AnswerCheck<Response> CheckOf(std::shared_ptr<const Request> of_part, const CollectionView&) {
  return [of_part = std::move(of_part)](const Response& answer) { return CheckCountAnswer(*of_part, answer); };
}

template <>
AnswerCheck<v1::ScrollResponse> CheckOf(std::shared_ptr<const v1::ScrollRequest> of_part,
                                        const CollectionView& collection) {
  return [of_part = std::move(of_part), shape = ShapeOf(collection), has_int_ids = collection.has_int_ids()](
             const v1::ScrollResponse& answer) { return CheckScrollAnswer(*of_part, has_int_ids, shape, answer); };
}

template <>
AnswerCheck<v1::GetResponse> CheckOf(std::shared_ptr<const v1::GetRequest> of_part, const CollectionView& collection) {
  return [of_part = std::move(of_part), shape = ShapeOf(collection)](const v1::GetResponse& answer) {
    return CheckGetAnswer(*of_part, shape, answer);
  };
}

// Return the client's error for the error of request `idx` to a group. If the group is lost, the error names the group.
// A tenant must not learn the name. The gate in front of the router removes it from most errors, but may pass on the
// errors of a Get unchanged. So Get adds no name if the call is a tenant's.
absl::Status ReadErrorOf(const v1::GetRequest&, const DealtCall<v1::GetRequest>& sent, size_t idx,
                         const absl::Status& status, bool is_tenant) {
  const std::string& group = sent.groups[idx];
  if (IsOtherView(status)) {  // A client knows of no slots.
    return absl::UnavailableError(absl::StrCat("group ", group, " does not answer: ", status.message()));
  }
  absl::Status of_client = WithClientsItem(status, sent.positions[idx]);
  return IsLost(status) && !is_tenant ? WithOrigin(of_client, absl::StrCat("group ", group)) : of_client;
}

template <typename Request>
absl::Status ReadErrorOf(const Request& request, const DealtCall<Request>& sent, size_t idx, const absl::Status& status,
                         bool /*is_tenant*/) {
  const std::string& group = sent.groups[idx];
  if (!IsLost(status) || (NamesGeneration(request) && IsOtherGeneration(status))) return status;
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status))
    return WithOrigin(status, absl::StrCat("group ", group));
  // The details of the error belong to its code. The code changes here, so the details are dropped.
  return absl::UnavailableError(absl::StrCat("group ", group, " does not answer: ", status.message()));
}

// If each group's answer is within the limit but the merged answer is too large, returns INVALID_ARGUMENT, as a
// single server does.
absl::Status CheckReadSize(const v1::GetResponse& merged, const service::RequestLimits& limits) {
  const auto bytes = static_cast<uint64_t>(merged.ByteSizeLong());
  if (bytes <= limits.max_answer_bytes) return absl::OkStatus();
  return service::InvalidField(
      "ids",
      absl::StrCat("the documents take ", bytes, " bytes, but an answer has at most ", limits.max_answer_bytes,
                   " (limits.max_answer_bytes); ask for fewer, or without return_tokens"),
      {limits.max_answer_bytes, bytes, "limits.max_answer_bytes"});
}

// Return the answer to the client, merged from the groups' answers. All of them must be OK.
absl::StatusOr<v1::CountResponse> Merge(const v1::CountRequest&, const CollectionView& collection,
                                        const DealtCall<v1::CountRequest>&,
                                        const std::vector<absl::StatusOr<v1::CountResponse>>& answers,
                                        const service::RequestLimits&) {
  return MergeCounts(collection, answers);
}

absl::StatusOr<v1::FacetsResponse> Merge(const v1::FacetsRequest& request, const CollectionView& collection,
                                         const DealtCall<v1::FacetsRequest>&,
                                         std::vector<absl::StatusOr<v1::FacetsResponse>> answers,
                                         const service::RequestLimits& limits) {
  absl::StatusOr<v1::FacetsResponse> merged = MergeFacets(request, collection, std::move(answers));
  if (!merged.ok()) return merged;
  if (absl::Status status = service::CheckFacetsSize(*merged, limits); !status.ok()) return status;
  return merged;
}

absl::StatusOr<v1::ScrollResponse> Merge(const v1::ScrollRequest& request, const CollectionView& collection,
                                         const DealtCall<v1::ScrollRequest>&,
                                         std::vector<absl::StatusOr<v1::ScrollResponse>> answers,
                                         const service::RequestLimits& limits) {
  return MergeScrolls(request, collection, std::move(answers), limits.max_answer_bytes);
}

absl::StatusOr<v1::GetResponse> Merge(const v1::GetRequest& request, const CollectionView&,
                                      const DealtCall<v1::GetRequest>& sent,
                                      std::vector<absl::StatusOr<v1::GetResponse>> answers,
                                      const service::RequestLimits& limits) {
  v1::GetResponse merged = MergeGets(request, std::move(answers), sent.positions, sent.one_log);
  if (absl::Status status = CheckReadSize(merged, limits); !status.ok()) return status;
  return merged;
}

}  // namespace

template <typename Request, typename Response>
struct RouterDocuments::Reading {
  // Whether the call looks at all documents that match. Such calls are limited to kMaxRouterPasses at the same time.
  static constexpr bool kIsPass =
      std::is_same_v<Request, v1::FacetsRequest> || std::is_same_v<Request, v1::ScrollRequest>;

  explicit Reading(Rpc<Request, Response> of_groups) : rpc(of_groups) {}

  const Rpc<Request, Response> rpc;
  std::unique_ptr<service::Call<Response>> call;
  Request request;
  std::shared_ptr<const void> place;  // of a pass
  int num_attempts = 0;
  // State of the current attempt. The targets and requests of `sent` are moved away when they are sent.
  std::shared_ptr<const CollectionView> collection;
  DealtCall<Request> sent;
};

template <typename Request, typename Response>
void RouterDocuments::Ask(std::shared_ptr<Reading<Request, Response>> reading) {
  ++reading->num_attempts;
  service::Call<Response>& call = *reading->call;
  DealtCall<Request>& sent = reading->sent;
  std::vector<AnswerCheck<Response>> checks;
  absl::Status status = Guarded([&] {
    auto found = deps_.membership->view()->Find(reading->request.collection());
    if (!found.ok()) return found.status();
    reading->collection = *std::move(found);
    const CollectionView& collection = *reading->collection;
    if (absl::Status s = CheckMinSequence(reading->request.min_sequence(), collection); !s.ok()) return s;
    sent = {};
    if (absl::Status s = Partition(reading->request, collection, deps_.limits, sent); !s.ok()) return s;
    for (const auto& of_part : sent.requests) checks.push_back(CheckOf<Request, Response>(of_part, collection));
    return absl::OkStatus();
  });
  if (!status.ok()) return call.Finish(std::move(status));
  const GroupCallOptions options{.deadline = DeadlineOf(call.context),
                                 .may_hedge = !Reading<Request, Response>::kIsPass,
                                 .cancelled = call.context.cancelled,
                                 .span = call.context.span.AsParent()};
  const Rpc<Request, Response> rpc = reading->rpc;
  Scatter<Request, Response>(deps_.environment, std::move(sent.targets), std::move(sent.requests), std::move(checks),
                             options, rpc,
                             [this, reading = std::move(reading)](std::vector<absl::StatusOr<Response>> answers) {
                               Gather(reading, std::move(answers));
                             });
}

template <typename Request, typename Response>
void RouterDocuments::Gather(const std::shared_ptr<Reading<Request, Response>>& reading,
                             std::vector<absl::StatusOr<Response>> answers) {
  // The groups have changed to another generation or other slots since the view was made.
  if (NeedFreshView(answers) && !NamesGeneration(reading->request) &&
      MayAskAgain(reading->num_attempts, reading->call->context)) {
    return AskWithFreshView(*deps_.membership, [this, reading] { Ask(reading); });
  }
  reading->call->Finish(Guarded([&]() -> absl::StatusOr<Response> {
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].ok()) continue;
      return ReadErrorOf(reading->request, reading->sent, i, answers[i].status(), IsOfTenant(*reading->call));
    }
    return Merge(reading->request, *reading->collection, reading->sent, std::move(answers), deps_.limits);
  }));
}

template <typename Request, typename Response>
void RouterDocuments::Begin(const Request& request, service::CallContext context, service::Done<Response> done,
                            Rpc<Request, Response> rpc) {
  auto call = std::make_unique<service::Call<Response>>(deps_.metrics, std::move(context), std::move(done));
  Describe(request, call->context);
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

void RouterDocuments::Get(const v1::GetRequest& request, service::CallContext context,
                          service::Done<v1::GetResponse> done) {
  Begin(request, std::move(context), std::move(done), kGetRpc);
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
