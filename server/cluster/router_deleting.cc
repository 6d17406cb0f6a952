// Deletes by filter through a router: each group finds and deletes its own documents, and the router adds up the
// numbers.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/guard.h"
#include "base/saturating.h"
#include "client/error_details.h"
#include "server/cluster/fresh_view.h"
#include "server/cluster/groups/call_outcome.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/parts/check_documents.h"
#include "server/cluster/parts/deal_documents.h"
#include "server/cluster/parts/merge_documents.h"
#include "server/cluster/parts/restriction.h"
#include "server/cluster/parts/scatter.h"
#include "server/cluster/parts/split.h"
#include "server/cluster/router_documents.h"
#include "server/cluster/router_writes.h"
#include "server/service/call/call.h"
#include "server/service/documents/document_delete.h"
#include "server/service/selection/filter_message.h"

namespace maxsim::cluster {
namespace {

using DeleteAnswers = std::vector<absl::StatusOr<v1::DeleteResponse>>;

std::string DocumentCount(uint64_t count) { return absl::StrCat(count, count == 1 ? " document" : " documents"); }

// Returns the error with the number of documents that were deleted before it as its detail (NumDeletedOf), unless that
// is 0.
absl::Status WithNumDeleted(absl::Status status, uint64_t num_deleted) {
  if (num_deleted > 0) client::SetPartlyDeleted(num_deleted, status);
  return status;
}

// Returns the error of a delete with a filter, or OK if all groups carried it out. The error names the groups that
// failed. If other groups, or earlier attempts (`deleted_before`), have deleted documents, the error has their number
// as its detail (NumDeletedOf). The call can be repeated in any case, because it then finds only the documents that are
// left. For `is_tenant` it names no groups.
absl::Status MatchingDeleteErrorOf(const DeleteAnswers& answers, const std::vector<std::string>& groups,
                                   uint64_t deleted_before, bool is_tenant) {
  const GroupOutcomes outcomes = OutcomesOf(answers, groups);
  if (!outcomes.first_failed.has_value()) return absl::OkStatus();
  uint64_t num_deleted = deleted_before;
  for (const absl::StatusOr<v1::DeleteResponse>& answer : answers) {
    if (answer.ok()) num_deleted = SaturatingAdd(num_deleted, answer->num_deleted());
  }
  std::string done;
  if (!outcomes.done.empty() || deleted_before > 0) {
    done = absl::StrCat("; ", DocumentCount(num_deleted));
    // Earlier attempts may have deleted documents of other groups, too.
    if (deleted_before == 0 && !is_tenant) {
      absl::StrAppend(&done, " of group ", absl::StrJoin(outcomes.done, " and group "));
    }
    absl::StrAppend(&done, num_deleted == 1 ? " was" : " were", " deleted: the call can be repeated");
  }
  std::string where;
  if (!is_tenant) {
    where =
        absl::StrCat(outcomes.failed.size() == 1 ? " (group " : " (groups ", absl::StrJoin(outcomes.failed, ", "), ")");
  }
  absl::Status status = ErrorOfWhole(WriteErrorOf(answers[*outcomes.first_failed].status()), where, done,
                                     /*may_have_written=*/!outcomes.failed_wrote_nothing || num_deleted > 0);
  return WithNumDeleted(std::move(status), num_deleted);
}

// Returns true if groups failed, and all of these failed because no replica holds the slots any more that they were
// asked about.
bool FailedForSlotsOnly(const DeleteAnswers& answers) {
  bool has_failed = false;
  for (const absl::StatusOr<v1::DeleteResponse>& answer : answers) {
    if (answer.ok()) continue;
    if (!IsOtherSlots(answer.status())) return false;
    has_failed = true;
  }
  return has_failed;
}

}  // namespace

struct RouterDocuments::Deleting {
  std::shared_ptr<service::Call<v1::DeleteResponse>> call;
  v1::DeleteRequest request;
  std::shared_ptr<const void> place;  // in the limit on these calls
  int num_attempts = 0;
  // Sums over earlier attempts. The next attempt does not find documents again that these have deleted or found
  // missing. It does find those again that they found stale, so there is no sum of stale documents.
  uint64_t num_deleted = 0;
  uint64_t num_missing = 0;
  uint64_t sequence = 0;
};

void RouterDocuments::DeleteMatching(const v1::DeleteRequest& request,
                                     std::shared_ptr<service::Call<v1::DeleteResponse>> call) {
  std::shared_ptr<Deleting> deleting;
  absl::Status status = Guarded([&] {
    deleting = std::make_shared<Deleting>();
    deleting->request = request;
    return absl::OkStatus();
  });
  if (!status.ok()) return call->Finish(std::move(status));
  deleting->call = std::move(call);
  AskToDelete(deleting);
}

void RouterDocuments::AskToDelete(const std::shared_ptr<Deleting>& deleting) {
  ++deleting->num_attempts;
  service::Call<v1::DeleteResponse>& call = *deleting->call;
  const v1::DeleteRequest& request = deleting->request;
  DealtCall<v1::DeleteRequest> sent;
  const absl::Status status = PartitionWrite(request.collection(), [&](const CollectionView& collection) {
    if (absl::Status s = service::CheckDeleteSelection(request); !s.ok()) return s;
    // Check here what every group would refuse.
    if (absl::Status s = service::FilterOfRequest(request).status(); !s.ok()) return s;
    if (absl::Status s = CheckMinSequence(request.min_sequence(), collection); !s.ok()) return s;
    if (absl::Status s = service::CheckAwaited(call.context, "before the groups were asked"); !s.ok()) return s;
    if (deleting->place == nullptr) {
      absl::StatusOr<std::shared_ptr<const void>> taken = matching_deletes_.Take();
      if (!taken.ok()) return taken.status();
      deleting->place = *std::move(taken);
    }
    sent.one_log = collection.has_one_log();
    for (const CollectionView::Part& part : collection.parts) {
      auto of_part = std::make_shared<v1::DeleteRequest>(request);
      // An earlier attempt may have deleted documents at another replica. min_sequence keeps this one from finding them
      // again.
      if (sent.one_log) of_part->set_min_sequence(std::max(request.min_sequence(), deleting->sequence));
      RestrictToSlots(part, *of_part);
      sent.Add(part, {}, std::move(of_part));
    }
    return absl::OkStatus();
  });
  if (!status.ok()) {
    deleting->place = nullptr;
    return call.Finish(WithNumDeleted(status, deleting->num_deleted));
  }
  // If the client goes away, a group that still looks for documents stops. A group that already deletes them goes on.
  const absl::Time deadline = DeadlineOf(call.context);
  const GroupCallOptions options{.deadline = deadline,
                                 .may_hedge = false,
                                 .may_repeat = false,
                                 .expires = ExpiryOf(deadline),
                                 .cancelled = call.context.cancelled,
                                 .span = call.context.span.AsParent()};
  std::vector<AnswerCheck<v1::DeleteResponse>> checks = ChecksOf<v1::DeleteResponse>(sent.requests, CheckDeleteAnswer);
  Scatter<v1::DeleteRequest, v1::DeleteResponse>(
      deps_.environment, std::move(sent.targets), std::move(sent.requests), std::move(checks), options, kDeleteRpc,
      [this, deleting, groups = std::move(sent.groups), positions = std::move(sent.positions),
       one_log = sent.one_log](const DeleteAnswers& answers) {
        if (DeleteAgain(deleting, answers)) return;
        deleting->place = nullptr;  // A client may make its next call as soon as it has the answer.
        deleting->call->Finish(Guarded([&]() -> absl::StatusOr<v1::DeleteResponse> {
          const bool is_tenant = IsOfTenant(*deleting->call);
          absl::Status error = MatchingDeleteErrorOf(answers, groups, deleting->num_deleted, is_tenant);
          if (!error.ok()) return error;
          v1::DeleteResponse merged = MergeDeletes(answers, positions, one_log);
          merged.set_num_deleted(SaturatingAdd(merged.num_deleted(), deleting->num_deleted));
          merged.set_num_missing(SaturatingAdd(merged.num_missing(), deleting->num_missing));
          if (one_log) merged.set_sequence(std::max(merged.sequence(), deleting->sequence));
          return merged;
        }));
      });
}

bool RouterDocuments::DeleteAgain(const std::shared_ptr<Deleting>& deleting, const DeleteAnswers& answers) {
  if (!FailedForSlotsOnly(answers) || !MayAskAgain(deleting->num_attempts, deleting->call->context)) return false;
  for (const absl::StatusOr<v1::DeleteResponse>& answer : answers) {
    if (!answer.ok()) continue;
    deleting->num_deleted = SaturatingAdd(deleting->num_deleted, answer->num_deleted());
    deleting->num_missing = SaturatingAdd(deleting->num_missing, answer->num_missing());
    deleting->sequence = std::max(deleting->sequence, answer->sequence());
  }
  AskWithFreshView(*deps_.membership, [this, deleting] { AskToDelete(deleting); });
  return true;
}

}  // namespace maxsim::cluster
