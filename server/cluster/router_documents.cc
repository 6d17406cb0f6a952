#include "server/cluster/router_documents.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/guard.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "client/status.h"
#include "collection/collection_name.h"
#include "server/cluster/groups/error_origin.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/parts/check_documents.h"
#include "server/cluster/parts/clients_index.h"
#include "server/cluster/parts/deal_documents.h"
#include "server/cluster/parts/merge.h"
#include "server/cluster/parts/scatter.h"
#include "server/service/call/call.h"
#include "server/service/call/call_spans.h"
#include "server/service/call/status.h"
#include "server/service/document_write.h"
#include "server/service/request/stored_rows.h"

namespace maxsim::cluster {
namespace {

using service::ServingState;

// Takes an error about a document or id of a part's request, and returns it with its index in the client's request.
absl::Status WithClientsItem(const absl::Status& status, const Positions& positions) {
  absl::Status changed = status;
  for (const std::string_view list : {"documents", "string_ids.ids", "int_ids.ids"}) {
    changed = WithClientsIndex(changed, list, positions);
  }
  return changed;
}

// Returns the first error of a write to several groups, in terms of the client's call; it says what was written.
template <typename Response>
absl::Status ErrorOf(const std::vector<absl::StatusOr<Response>>& answers, const std::vector<std::string>& groups,
                     const std::vector<Positions>& positions) {
  const absl::Status* first = nullptr;
  size_t failed = 0;
  std::vector<std::string> written;
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].ok()) {
      written.push_back(groups[i]);
    } else if (first == nullptr) {
      first = &answers[i].status();
      failed = i;
    }
  }
  if (first == nullptr) return absl::OkStatus();
  std::string addition;
  if (answers.size() > 1) absl::StrAppend(&addition, " (group ", groups[failed], ")");
  if (absl::IsInternal(*first)) absl::StrAppend(&addition, "; it may have been carried out");
  if (!written.empty()) {
    absl::StrAppend(&addition, "; what is group ", absl::StrJoin(written, "'s and group "), "'s was carried out");
  }
  absl::Status status = client::WithAddition(WithClientsItem(*first, positions[failed]), addition);
  // With several groups, an error that says that nothing was written speaks for one of them only.
  if (answers.size() > 1 && IsSafeToRepeat(status)) status.ErasePayload(client::kErrorInfoTypeUrl);
  return status;
}

// Returns the error of a read with the server's message and details, and the index in the client's request. If the
// group is lost, the error names it.
absl::Status ReadErrorOf(const absl::Status& status, const std::string& group, const Positions& positions) {
  absl::Status of_client = WithClientsItem(status, positions);
  return IsLost(status) ? WithOrigin(of_client, absl::StrCat("group ", group)) : of_client;
}

// Returns one check per request, which calls `check` with the request and its answer.
template <typename Response, typename Request, typename Check>
std::vector<AnswerCheck<Response>> ChecksOf(const std::vector<std::shared_ptr<const Request>>& requests, Check check) {
  std::vector<AnswerCheck<Response>> checks;
  for (const std::shared_ptr<const Request>& request : requests) {
    checks.emplace_back([request, check](const Response& answer) { return check(*request, answer); });
  }
  return checks;
}

// Returns INVALID_ARGUMENT, as a single server does, if the groups' answers are within the limit but too large
// together.
absl::Status CheckReadSize(const v1::GetResponse& merged, const service::RequestLimits& limits) {
  const auto bytes = static_cast<uint64_t>(merged.ByteSizeLong());
  if (bytes <= limits.max_answer_bytes) return absl::OkStatus();
  return service::InvalidField(
      "ids",
      absl::StrCat("the documents take ", bytes, " bytes, and an answer has at most ", limits.max_answer_bytes,
                   " (limits.max_answer_bytes); ask for fewer, or without return_tokens"),
      {limits.max_answer_bytes, bytes, "limits.max_answer_bytes"});
}

// Puts the parts' results where their items stood, and the highest sequence where the parts have one log.
template <typename Response>
Response MergeWrites(const std::vector<absl::StatusOr<Response>>& answers, const std::vector<Positions>& positions,
                     bool one_log) {
  Response merged;
  size_t count = 0;
  for (const Positions& of_part : positions) count += of_part.size();
  for (size_t i = 0; i < count; ++i) merged.add_results();
  for (size_t part = 0; part < answers.size(); ++part) {
    const Response& answer = *answers[part];
    for (int i = 0; i < answer.results_size(); ++i) {
      *merged.mutable_results(static_cast<int>(positions[part][static_cast<size_t>(i)])) = answer.results(i);
    }
    if (one_log) merged.set_sequence(std::max(merged.sequence(), answer.sequence()));
  }
  return merged;
}

// Sends the parts of a write to their groups. Once all have answered, `complete` adds to the merged response what is
// this call's own, `submitted` (may be null) is called if nothing failed, and the client's call is finished.
template <typename Request, typename Response, typename Check, typename Complete>
void ScatterWrite(const CallEnvironment& environment, absl::Time deadline, const std::string& collection,
                  DealtCall<Request> sent, Rpc<Request, Response> rpc, Check check,
                  std::shared_ptr<service::Call<Response>> call, Complete complete,
                  RouterDocuments::Submitted submitted) {
  for (CallTarget& target : sent.targets) target = ForWrites(std::move(target), collection);
  const GroupCallOptions options{.deadline = deadline,
                                 .may_hedge = false,
                                 .may_repeat = false,
                                 .cancelled = {},  // What was sent is written.
                                 .span = call->context.span.AsParent()};
  std::vector<AnswerCheck<Response>> checks = ChecksOf<Response>(sent.requests, check);
  Scatter<Request, Response>(
      environment, std::move(sent.targets), std::move(sent.requests), std::move(checks), options, rpc,
      [call, complete, groups = std::move(sent.groups), positions = std::move(sent.positions), one_log = sent.one_log,
       submitted = std::move(submitted)](const std::vector<absl::StatusOr<Response>>& answers) mutable {
        absl::StatusOr<Response> merged = Guarded([&]() -> absl::StatusOr<Response> {
          if (absl::Status s = ErrorOf(answers, groups, positions); !s.ok()) return s;
          Response response = MergeWrites(answers, positions, one_log);
          complete(answers, response);
          return response;
        });
        if (merged.ok() && submitted != nullptr) submitted();
        call->Finish(std::move(merged));
      });
}

template <typename Ids>
bool HasId(const Ids& ids, int idx, const v1::StoredDocument& document) {
  if constexpr (std::is_same_v<Ids, v1::IntIds>) {
    return document.int_id() == ids.ids(idx);
  } else {
    return document.string_id() == ids.ids(idx);
  }
}

// Puts the documents and the missing ids of the parts in the order of the client's ids. A part's documents come in the
// order of its ids, and so do those that it misses.
template <typename Ids>
void MergeReads(const Ids& ids, const std::vector<Positions>& positions, std::vector<v1::GetResponse*>& answers,
                v1::GetResponse& merged) {
  struct Place {
    size_t part = 0;
    int idx = 0;
  };
  std::map<uint32_t, Place> found;  // by position of the id
  for (size_t part = 0; part < answers.size(); ++part) {
    int next = 0;
    for (const uint32_t position : positions[part]) {
      if (next == answers[part]->documents_size()) break;
      if (HasId(ids, static_cast<int>(position), answers[part]->documents(next))) found[position] = {part, next++};
    }
  }
  for (const auto& [position, place] : found) {
    *merged.add_documents() = std::move(*answers[place.part]->mutable_documents(place.idx));
  }
  std::set<uint32_t> missing;  // positions of ids
  for (size_t part = 0; part < answers.size(); ++part) {
    int next = 0;
    const auto& list = [&]() -> const auto& {
      if constexpr (std::is_same_v<Ids, v1::IntIds>) {
        return answers[part]->missing_int_ids();
      } else {
        return answers[part]->missing_string_ids();
      }
    }
    ();
    for (const uint32_t position : positions[part]) {
      if (next == list.ids_size()) break;
      if (list.ids(next) != ids.ids(static_cast<int>(position))) continue;
      missing.insert(position);
      ++next;
    }
  }
  for (const uint32_t position : missing) {
    if constexpr (std::is_same_v<Ids, v1::IntIds>) {
      merged.mutable_missing_int_ids()->add_ids(ids.ids(static_cast<int>(position)));
    } else {
      *merged.mutable_missing_string_ids()->add_ids() = ids.ids(static_cast<int>(position));
    }
  }
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
        absl::StrCat("collection ", Quote(name), ": group ", part.target.group->name(), " has ",
                     part.target.group->replicas().size(),
                     " replicas, each with a log of its own; they take writes where one stream orders them (live.log: "
                     "nats)"));
  }
  return collection;
}

template <typename Partition>
absl::Status RouterDocuments::PartitionWrite(const std::string& name, Partition partition) const {
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
  const auto add_encoded = [](const std::vector<absl::StatusOr<v1::UpsertResponse>>& answers,
                              v1::UpsertResponse& merged) {
    for (const absl::StatusOr<v1::UpsertResponse>& answer : answers) {
      merged.set_encoded_tokens(merged.encoded_tokens() + answer->encoded_tokens());
    }
  };
  const absl::Time deadline = DeadlineOf(call->context);
  ScatterWrite(deps_.environment, deadline, request.collection(), std::move(sent), kUpsertRpc, CheckUpsertAnswer,
               std::move(call), add_encoded, std::move(submitted));
}

void RouterDocuments::Delete(const v1::DeleteRequest& request, service::CallContext context,
                             service::Done<v1::DeleteResponse> done) {
  auto call = std::make_shared<service::Call<v1::DeleteResponse>>(deps_.metrics, std::move(context), std::move(done));
  service::DescribeDocuments(request.collection(), call->context.method,
                             request.string_ids().ids_size() + request.int_ids().ids_size(), call->context.span);
  DealtCall<v1::DeleteRequest> sent;
  const absl::Status status = PartitionWrite(request.collection(), [&](const CollectionView& collection) {
    const auto fill = [&](v1::DeleteRequest& of_part) { of_part.set_version(request.version()); };
    return PartitionRequest(request, collection, deps_.limits, service::kMaxDeleteIds, fill, sent);
  });
  if (!status.ok()) return call->Finish(status);
  const auto add_nothing = [](const auto&, v1::DeleteResponse&) {};
  const absl::Time deadline = DeadlineOf(call->context);
  ScatterWrite(deps_.environment, deadline, request.collection(), std::move(sent), kDeleteRpc, CheckDeleteAnswer,
               std::move(call), add_nothing, /*submitted=*/nullptr);
}

void RouterDocuments::Get(const v1::GetRequest& request, service::CallContext context,
                          service::Done<v1::GetResponse> done) {
  auto call = std::make_shared<service::Call<v1::GetResponse>>(deps_.metrics, std::move(context), std::move(done));
  service::DescribeDocuments(request.collection(), call->context.method,
                             request.string_ids().ids_size() + request.int_ids().ids_size(), call->context.span);
  DealtCall<v1::GetRequest> sent;
  StoredShape shape;
  const absl::Status status = Guarded([&] {
    if (absl::Status s = CheckState(); !s.ok()) return s;
    const auto collection = deps_.membership->view()->Find(request.collection());
    if (!collection.ok()) return collection.status();
    if (absl::Status s = CheckMinSequence(request.min_sequence(), **collection); !s.ok()) return s;
    shape = {.storage = (*collection)->info.storage(), .dim = (*collection)->info.dim()};
    const auto fill = [&](v1::GetRequest& of_part) {
      of_part.set_return_tokens(request.return_tokens());
      of_part.set_min_sequence(request.min_sequence());
    };
    return PartitionRequest(request, **collection, deps_.limits, service::kMaxGetIds, fill, sent);
  });
  if (!status.ok()) return call->Finish(status);
  const GroupCallOptions options{.deadline = DeadlineOf(call->context),
                                 .may_hedge = true,
                                 .cancelled = call->context.cancelled,
                                 .span = call->context.span.AsParent()};
  std::vector<AnswerCheck<v1::GetResponse>> checks =
      ChecksOf<v1::GetResponse>(sent.requests, [shape](const v1::GetRequest& of_part, const v1::GetResponse& answer) {
        return CheckGetAnswer(of_part, shape, answer);
      });
  Scatter<v1::GetRequest, v1::GetResponse>(
      deps_.environment, std::move(sent.targets), std::move(sent.requests), std::move(checks), options, kGetRpc,
      [call, request, limits = deps_.limits, groups = std::move(sent.groups), positions = std::move(sent.positions),
       one_log = sent.one_log](std::vector<absl::StatusOr<v1::GetResponse>> answers) {
        call->Finish(Guarded([&]() -> absl::StatusOr<v1::GetResponse> {
          v1::GetResponse merged;
          std::vector<v1::GetResponse*> of_parts;
          for (size_t i = 0; i < answers.size(); ++i) {
            if (!answers[i].ok()) return ReadErrorOf(answers[i].status(), groups[i], positions[i]);
            v1::GetResponse& answer = *answers[i];
            of_parts.push_back(&answer);
            merged.set_generation(std::max(merged.generation(), answer.generation()));
            if (!one_log) continue;
            merged.set_sequence(i == 0 ? answer.sequence() : std::min(merged.sequence(), answer.sequence()));
          }
          if (request.has_int_ids()) {
            MergeReads(request.int_ids(), positions, of_parts, merged);
          } else {
            MergeReads(request.string_ids(), positions, of_parts, merged);
          }
          if (absl::Status s = CheckReadSize(merged, limits); !s.ok()) return s;
          return merged;
        }));
      });
}

bool RouterDocuments::HasIntIds(std::string_view collection) const {
  const auto found = deps_.membership->view()->Find(collection);
  return found.ok() && (*found)->has_int_ids();
}

}  // namespace maxsim::cluster
