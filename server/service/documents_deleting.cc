// The calls of DocumentService that delete documents.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "server/service/call/call_record.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/documents.h"
#include "server/service/documents/document_delete.h"
#include "server/service/documents/write_call.h"
#include "server/service/documents/write_guard.h"
#include "server/service/selection/filter_message.h"

namespace maxsim::service {
namespace {

// Hands deletes to the collection. When they are written, answers the call with the response that `answer` makes of
// their results. Without deletes, answers at once. Frees `place` and `claim` (may be null) right before it answers,
// because the client may make its next call at once.
template <typename Answer>
void SubmitDeletes(std::unique_ptr<Call<v1::DeleteResponse>> call, const store::Collection& collection,
                   store::LiveDocuments& live, std::vector<store::Write> writes, std::shared_ptr<const void> place,
                   std::shared_ptr<const void> claim, Answer answer) {
  if (writes.empty()) {
    place = nullptr;
    claim = nullptr;
    return call->Finish(answer(store::WriteResults{.results = {}, .sequence = collection.sequence()}));
  }
  const store::WriteCaller caller = WriteCallerOf(call->context);
  Guarded([&] {
    live.Submit(std::move(writes), caller,
                [call = std::move(call), place = std::move(place), claim = std::move(claim),
                 answer = std::move(answer)](const absl::StatusOr<store::WriteResults>& written) mutable {
                  place = nullptr;
                  claim = nullptr;
                  if (!written.ok()) return call->Finish(written.status());
                  call->Finish(answer(*written));
                });
    return absl::OkStatus();
  }).IgnoreError();  // If this failed because memory ran out, the destructor of the call has answered the call.
}

}  // namespace

absl::StatusOr<std::vector<store::Write>> DocumentService::ToDeletes(const v1::DeleteRequest& request,
                                                                     const DocumentRules& rules) const {
  if (absl::Status status = CheckDeleteSelection(request); !status.ok()) return status;
  std::vector<store::Write> writes;
  const auto add = [&]() -> store::Write& {
    store::Write& write = writes.emplace_back();
    write.kind = collection::LogRecord::Kind::kDelete;
    write.version = request.version();
    return write;
  };
  absl::Status status;
  switch (request.ids_case()) {
    case v1::DeleteRequest::kStringIds:
      status = CheckIds(request.string_ids(), rules, kMaxDeleteIds);
      if (status.ok()) status = CheckSlots(request.string_ids(), rules);
      if (!status.ok()) return status;
      writes.reserve(static_cast<size_t>(request.string_ids().ids_size()));
      for (const std::string& id : request.string_ids().ids()) add().string_id = id;
      return writes;
    case v1::DeleteRequest::kIntIds:
      status = CheckIds(request.int_ids(), rules, kMaxDeleteIds);
      if (status.ok()) status = CheckSlots(request.int_ids(), rules);
      if (!status.ok()) return status;
      writes.reserve(static_cast<size_t>(request.int_ids().ids_size()));
      for (const int64_t id : request.int_ids().ids()) add().int_id = id;
      return writes;
    case v1::DeleteRequest::IDS_NOT_SET:
      break;
  }
  return writes;
}

absl::StatusOr<std::shared_ptr<const void>> DocumentService::ClaimDeletes(const v1::DeleteRequest& request,
                                                                          const StopCheck& check, Target& target,
                                                                          GuardedDeletes& deletes) {
  // Slots need no second check, because an id never changes its slot.
  const std::optional<v1::Filter> visible = request.has_visible() ? WithoutSlots(request.visible()) : std::nullopt;
  if (!visible.has_value()) return nullptr;
  absl::StatusOr<std::shared_ptr<const void>> claim =
      claims_.Claim(request.collection(), *visible, target.collection->manifest().id_type, deletes.writes);
  if (!claim.ok()) return claim.status();
  // Another client may have replaced a document before the ids were claimed.
  if (absl::Status status = FindLatest(request.collection(), target); !status.ok()) return status;
  absl::Status status = LeaveOutHidden(*visible, *target.collection, check, deletes);
  if (!status.ok()) return status;
  return claim;
}

void DocumentService::DeleteMatching(const v1::DeleteRequest& request, std::unique_ptr<Call<v1::DeleteResponse>> call) {
  Target target;
  std::shared_ptr<const void> place;
  std::shared_ptr<const void> claim;
  GuardedDeletes deletes({});
  bool has_more = false;
  absl::Status status = CheckState();
  if (status.ok()) {
    status = Guarded([&] {
      absl::StatusOr<Target> found = FindTarget(request.collection());
      if (!found.ok()) return found.status();
      target = *std::move(found);
      if (absl::Status wrong = CheckDeleteSelection(request); !wrong.ok()) return wrong;
      const store::LiveState state = target.live->state();
      if (absl::Status lost = CheckStream(request.collection(), state); !lost.ok()) return lost;
      absl::StatusOr<std::shared_ptr<const void>> taken = matching_deletes_.Take();
      if (!taken.ok()) return taken.status();
      place = *std::move(taken);
      const auto check = [&] { return CheckAwaited(call->context, "while the documents to delete were found"); };
      absl::StatusOr<MatchingDeletes> matching =
          FindMatchingDeletes(request, *target.collection, *target.live, MaxDeletesOf(state), kMaxVersionsRead, check);
      if (!matching.ok()) return matching.status();
      has_more = matching->has_more;
      deletes = GuardedDeletes(std::move(matching->writes));
      absl::StatusOr<std::shared_ptr<const void>> claimed = ClaimDeletes(request, check, target, deletes);
      if (!claimed.ok()) return claimed.status();
      claim = *std::move(claimed);
      return CheckAwaited(call->context, kBeforeWriting);
    });
  }
  if (!status.ok()) {
    place = nullptr;  // as in SubmitDeletes
    return RefuseWrite(*call, std::move(status));
  }
  auto answer = [is_visible = std::move(deletes.is_visible),
                 has_more](const store::WriteResults& written) -> absl::StatusOr<v1::DeleteResponse> {
    return Guarded([&]() -> absl::StatusOr<v1::DeleteResponse> {
      return MatchingDeletesAnswer(WithHidden(written, is_visible), has_more);
    });
  };
  SubmitDeletes(std::move(call), *target.collection, *target.live, std::move(deletes.writes), std::move(place),
                std::move(claim), std::move(answer));
}

void DocumentService::Delete(const v1::DeleteRequest& request, CallContext context, Done<v1::DeleteResponse> done) {
  auto call = std::make_unique<Call<v1::DeleteResponse>>(metrics(), std::move(context), std::move(done));
  if (HasFilter(request)) {
    DescribeCount(request.collection(), call->context.method, call->context.span);
    return DeleteMatching(request, std::move(call));
  }
  DescribeDocuments(request.collection(), call->context.method,
                    request.string_ids().ids_size() + request.int_ids().ids_size(), call->context.span);
  Target target;
  GuardedDeletes deletes({});
  std::shared_ptr<const void> claim;
  absl::Status status = CheckState();
  if (status.ok()) {
    status = Guarded([&] {
      absl::StatusOr<Target> found = FindTarget(request.collection());
      if (!found.ok()) return found.status();
      target = *std::move(found);
      absl::StatusOr<std::vector<store::Write>> writes =
          ToDeletes(request, DocumentRulesOf(*target.collection, limits()));
      if (!writes.ok()) return writes.status();
      deletes = GuardedDeletes(*std::move(writes));
      if (request.has_visible()) {
        const auto check = [&] { return CheckAwaited(call->context, kWhileFiltering); };
        // Leave out hidden ids before the rest is claimed. Otherwise a client could find out which ids another one is
        // writing just now, and could delay these writes.
        absl::Status hidden = LeaveOutHidden(request.visible(), *target.collection, check, deletes);
        if (!hidden.ok()) return hidden;
        absl::StatusOr<std::shared_ptr<const void>> claimed = ClaimDeletes(request, check, target, deletes);
        if (!claimed.ok()) return claimed.status();
        claim = *std::move(claimed);
      }
      return CheckAwaited(call->context, kBeforeWriting);
    });
  }
  if (!status.ok()) return RefuseWrite(*call, std::move(status));
  auto answer = [is_visible = std::move(deletes.is_visible)](
                    const store::WriteResults& written) -> absl::StatusOr<v1::DeleteResponse> {
    return Guarded([&] { return WriteResponseOf<v1::DeleteResponse>(WithHidden(written, is_visible)); });
  };
  SubmitDeletes(std::move(call), *target.collection, *target.live, std::move(deletes.writes), /*place=*/nullptr,
                std::move(claim), std::move(answer));
}

}  // namespace maxsim::service
