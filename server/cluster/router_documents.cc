#include "server/cluster/router_documents.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "collection/collection_name.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/parts/check_documents.h"
#include "server/cluster/parts/clients_index.h"
#include "server/cluster/parts/deal_documents.h"
#include "server/cluster/parts/merge_documents.h"
#include "server/cluster/parts/scatter.h"
#include "server/cluster/router_writes.h"
#include "server/service/call/call.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/documents/document_delete.h"
#include "server/service/documents/document_write.h"
#include "server/service/request/stored_rows.h"

namespace maxsim::cluster {
namespace {

// Returns the first error of a write to several groups, or OK if there is none. Indices in the error are those of the
// client's request. The error says which groups have carried out their part of the write. A tenant must not learn the
// names of groups, so with `is_tenant` it only says whether any group has.
template <typename Response>
absl::Status ErrorOf(const std::vector<absl::StatusOr<Response>>& answers, const std::vector<std::string>& groups,
                     const std::vector<Positions>& positions, bool is_tenant) {
  const GroupOutcomes outcomes = OutcomesOf(answers, groups);
  if (!outcomes.first_failed.has_value()) return absl::OkStatus();
  const size_t failed = *outcomes.first_failed;
  const bool has_others = answers.size() > 1;
  std::string done;
  if (!outcomes.done.empty() && is_tenant) {
    done = "; another part of the call was carried out";
  } else if (!outcomes.done.empty()) {
    done = absl::StrCat("; what is group ", absl::StrJoin(outcomes.done, "'s and group "), "'s was carried out");
  }
  return ErrorOfWhole(WithClientsItem(WriteErrorOf(answers[failed].status()), positions[failed]),
                      has_others && !is_tenant ? absl::StrCat(" (group ", groups[failed], ")") : "", done,
                      /*may_have_written=*/has_others);
}

// Sends the parts of a write to their groups. If all groups answer without an error, `merge` makes the response, and
// `submitted` (may be null) is called. In each case this finishes the client's call.
template <typename Request, typename Response, typename Check, typename Merge>
void ScatterWrite(const CallEnvironment& environment, Membership* membership, absl::Time deadline,
                  DealtCall<Request> sent, Rpc<Request, Response> rpc, Check check,
                  std::shared_ptr<service::Call<Response>> call, Merge merge, RouterDocuments::Submitted submitted) {
  const GroupCallOptions options{.deadline = deadline,
                                 .may_hedge = false,
                                 .may_repeat = false,
                                 .expires = ExpiryOf(deadline),
                                 .cancelled = {},  // A write is carried out even if its client goes away.
                                 .span = call->context.span.AsParent()};
  std::vector<AnswerCheck<Response>> checks = ChecksOf<Response>(sent.requests, check);
  Scatter<Request, Response>(
      environment, std::move(sent.targets), std::move(sent.requests), std::move(checks), options, rpc,
      [call, merge, membership, groups = std::move(sent.groups), positions = std::move(sent.positions),
       one_log = sent.one_log,
       submitted = std::move(submitted)](const std::vector<absl::StatusOr<Response>>& answers) mutable {
        RefreshAfter(answers, *membership);
        absl::StatusOr<Response> merged = Guarded([&]() -> absl::StatusOr<Response> {
          if (absl::Status s = ErrorOf(answers, groups, positions, IsOfTenant(*call)); !s.ok()) return s;
          return merge(answers, positions, one_log);
        });
        if (merged.ok() && submitted != nullptr) submitted();
        call->Finish(std::move(merged));
      });
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CollectionView>> RouterDocuments::FindLive(const std::string& name) const {
  if (const absl::Status status = collection::CheckCollectionName(name); !status.ok()) {
    return service::InvalidField("collection", std::string(status.message()));
  }
  auto collection = deps_.membership->view()->Find(name);
  if (!collection.ok()) return collection.status();
  if (!(*collection)->info.has_live()) {
    return absl::FailedPreconditionError(absl::StrCat("collection ", Quote(name), " is not live: it takes no writes"));
  }
  if ((*collection)->info.live().log() == kStreamLog) return collection;
  for (const CollectionView::Part& part : (*collection)->parts) {
    if (part.target.group->replicas().size() < 2) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("collection ", Quote(name), ": one of its groups has ", part.target.group->replicas().size(),
                     " replicas, each with a log of its own; they take writes where one stream orders them (live.log: "
                     "nats)"));
  }
  return collection;
}

absl::Status RouterDocuments::PartitionWrite(
    const std::string& name, const std::function<absl::Status(const CollectionView&)>& partition) const {
  return Guarded([&] {
    if (absl::Status s = CheckState(); !s.ok()) return s;
    const auto collection = FindLive(name);
    return collection.ok() ? partition(**collection) : collection.status();
  });
}

absl::Time RouterDocuments::DeadlineOf(const service::CallContext& context) const {
  return DeadlineOfGroups(context.deadline, MonotonicNow(), deps_.timeout);
}

void RouterDocuments::Upsert(v1::UpsertRequest request, service::CallContext context,
                             service::Done<v1::UpsertResponse> done, Submitted submitted) {
  auto call = std::make_shared<service::Call<v1::UpsertResponse>>(deps_.metrics, std::move(context), std::move(done));
  service::DescribeDocuments(request.collection(), call->context.method, request.documents_size(), call->context.span);
  DealtCall<v1::UpsertRequest> sent;
  const absl::Status status = PartitionWrite(request.collection(), [&](const CollectionView& collection) {
    return PartitionDocuments(request, collection, deps_.limits, sent);
  });
  if (!status.ok()) return call->Finish(status);
  const absl::Time deadline = DeadlineOf(call->context);
  ScatterWrite(deps_.environment, deps_.membership, deadline, std::move(sent), kUpsertRpc, CheckUpsertAnswer,
               std::move(call), MergeUpserts, std::move(submitted));
}

void RouterDocuments::Delete(const v1::DeleteRequest& request, service::CallContext context,
                             service::Done<v1::DeleteResponse> done) {
  auto call = std::make_shared<service::Call<v1::DeleteResponse>>(deps_.metrics, std::move(context), std::move(done));
  if (service::HasFilter(request)) {
    service::DescribeCount(request.collection(), call->context.method, call->context.span);
    return DeleteMatching(request, std::move(call));
  }
  service::DescribeDocuments(request.collection(), call->context.method,
                             request.string_ids().ids_size() + request.int_ids().ids_size(), call->context.span);
  DealtCall<v1::DeleteRequest> sent;
  const absl::Status status = PartitionWrite(request.collection(), [&](const CollectionView& collection) {
    if (absl::Status s = service::CheckDeleteSelection(request); !s.ok()) return s;
    const auto fill = [&](v1::DeleteRequest& of_part) { of_part.set_version(request.version()); };
    return PartitionRequest(request, collection, deps_.limits, service::kMaxDeleteIds, fill, sent);
  });
  if (!status.ok()) return call->Finish(status);
  const absl::Time deadline = DeadlineOf(call->context);
  ScatterWrite(deps_.environment, deps_.membership, deadline, std::move(sent), kDeleteRpc, CheckDeleteAnswer,
               std::move(call), MergeDeletes, /*submitted=*/nullptr);
}

bool RouterDocuments::HasIntIds(const service::Caller&, std::string_view collection) const {
  const auto found = deps_.membership->view()->Find(collection);
  return found.ok() && (*found)->has_int_ids();
}

}  // namespace maxsim::cluster
