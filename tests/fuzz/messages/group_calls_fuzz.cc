// Fuzzes the router's handling of its groups' answers to all calls except Rerank: writes and reads of documents,
// explanations, changes of collections, and GetInfo. The router must refuse an answer, or use it for a correct answer.
// group_answers_fuzz.cc fuzzes Rerank.
//
// The first byte of the input chooses the call, the second its options. The rest holds the answers of two parts: either
// the bytes of each answer after its length (two bytes), or changes to correct answers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/cluster/groups/check_info.h"
#include "server/cluster/parts/check_documents.h"
#include "server/cluster/parts/check_rerank.h"
#include "server/cluster/parts/deal_documents.h"
#include "server/cluster/parts/merge_documents.h"
#include "server/http/rerank/explain_json.h"
#include "server/service/documents/document_delete.h"
#include "tests/fuzz/messages/message_changes.h"
#include "tests/fuzz/messages/two_groups.h"
#include "tests/fuzz/target.h"
#include "tests/unit/server/cluster/view_fixture.h"

namespace maxsim::fuzz {
namespace {

enum CallOptions : uint8_t { kRawAnswers = 1, kIntegerIds = 2, kOwnLogs = 4, kReturnTokens = 8, kWithFilter = 16 };

constexpr uint32_t kDim = 8;
constexpr uint64_t kSequence = 50;

template <typename Request>
Request MakeIds(bool has_int_ids) {
  Request request;
  request.set_collection("c");
  for (const int i : {3, 30, 1, 4, 3, 31, 30, 9, 2}) {
    if (has_int_ids) {
      request.mutable_int_ids()->add_ids(i);
    } else {
      request.mutable_string_ids()->add_ids(absl::StrCat("doc-", i));
    }
  }
  return request;
}

v1::UpsertRequest MakeUpsert(bool has_int_ids) {
  v1::UpsertRequest request;
  request.set_collection("c");
  for (const int i : {3, 30, 1, 4, 2}) {
    v1::Document& document = *request.add_documents();
    if (has_int_ids) {
      document.set_int_id(i);
    } else {
      document.set_string_id(absl::StrCat("doc-", i));
    }
    document.set_text("words");
  }
  return request;
}

v1::UpsertResponse RightAnswer(const v1::UpsertRequest& request) {
  v1::UpsertResponse answer;
  answer.set_sequence(kSequence);
  for (int i = 0; i < request.documents_size(); ++i) {
    v1::WriteResult& result = *answer.add_results();
    result.set_outcome(v1::WRITE_OUTCOME_APPLIED);
    result.set_sequence(static_cast<uint64_t>(i + 1));
  }
  answer.set_encoded_tokens(static_cast<uint64_t>(request.documents_size()));
  return answer;
}

v1::DeleteResponse RightAnswer(const v1::DeleteRequest& request) {
  v1::DeleteResponse answer;
  answer.set_sequence(kSequence);
  if (service::HasFilter(request)) {
    answer.set_num_deleted(3);
    answer.set_num_missing(2);
    answer.set_num_stale(1);
    answer.set_has_more(true);
    return answer;
  }
  for (int i = 0; i < request.int_ids().ids_size() + request.string_ids().ids_size(); ++i) {
    answer.add_results()->set_outcome(v1::WRITE_OUTCOME_NOT_FOUND);
  }
  return answer;
}

v1::GetResponse RightAnswer(const v1::GetRequest& request) {
  v1::GetResponse answer;
  answer.set_generation(7);
  answer.set_sequence(kSequence);
  const auto add = [&](bool is_found) {
    if (!is_found) return static_cast<v1::StoredDocument*>(nullptr);
    v1::StoredDocument* const document = answer.add_documents();
    document->set_num_tokens(2);
    document->set_scale(1);
    if (!request.return_tokens()) return document;
    document->mutable_tokens()->set_dtype(v1::DATA_TYPE_F16);
    document->mutable_tokens()->set_num_tokens(2);
    document->mutable_tokens()->set_dim(kDim);
    document->mutable_tokens()->set_data(std::string(size_t{2} * kDim * 2, '\0'));
    return document;
  };
  for (const int64_t id : request.int_ids().ids()) {
    if (v1::StoredDocument* const document = add(id < static_cast<int64_t>(kNumDocuments)); document != nullptr) {
      document->set_int_id(id);
    } else {
      answer.mutable_missing_int_ids()->add_ids(id);
    }
  }
  for (const std::string& id : request.string_ids().ids()) {
    if (v1::StoredDocument* const document = add(id.size() < 6 && id != "doc-30"); document != nullptr) {
      document->set_string_id(id);
    } else {
      answer.mutable_missing_string_ids()->add_ids(id);
    }
  }
  return answer;
}

// Returns the answers that the input describes. If `is_raw`, the input has their bytes, otherwise it has changes to the
// answers `right`.
template <typename Response>
std::vector<Response> ReadAnswers(Reader& input, bool is_raw, std::vector<Response> right) {
  if (is_raw) {
    for (Response& answer : right) {
      const size_t size = input.Byte() + 256u * input.Byte();
      if (!answer.ParseFromString(input.Take(size))) answer.Clear();
    }
    return right;
  }
  while (!input.empty()) ChangeMessage(input, right[input.Byte() % right.size()]);
  return right;
}

bool IsFault(const std::optional<cluster::AnswerFault>& fault) {
  if (!fault.has_value()) return false;
  Require(!fault->message.empty() && IsUtf8(fault->message), "a fault says what is wrong");
  return true;
}

// Returns one answer of the input for each request that was sent. If `check` finds a fault in an answer, returns none,
// because the router would fail the whole call.
template <typename Request, typename Response, typename Check>
std::vector<absl::StatusOr<Response>> CheckedAnswers(Reader& input, bool is_raw,
                                                     const cluster::DealtCall<Request>& sent, Check check) {
  std::vector<Response> right;
  for (const std::shared_ptr<const Request>& request : sent.requests) right.push_back(RightAnswer(*request));
  std::vector<absl::StatusOr<Response>> checked;
  for (Response& answer : ReadAnswers(input, is_raw, std::move(right))) {
    if (IsFault(check(*sent.requests[checked.size()], answer))) return {};
    checked.emplace_back(std::move(answer));
  }
  return checked;
}

// Requires that the merged answer has the result of each write of the client, from the part that got the write.
template <typename Request, typename Response>
void CheckWrites(int num_writes, const cluster::DealtCall<Request>& sent,
                 const std::vector<absl::StatusOr<Response>>& answers, const Response& merged) {
  Require(merged.results_size() == num_writes, "each write has a result");
  for (size_t part = 0; part < answers.size(); ++part) {
    Require(!sent.one_log || merged.sequence() >= answers[part]->sequence(), "the sequence is the highest");
    for (size_t i = 0; i < sent.positions[part].size(); ++i) {
      Require(merged.results(static_cast<int>(sent.positions[part][i])).SerializeAsString() ==
                  answers[part]->results(static_cast<int>(i)).SerializeAsString(),
              "a result stands where its write stood");
    }
  }
}

// Requires that each id of the request has a document in the merged answer or is listed as missing. Documents and
// missing ids must each be in the order of the request.
void CheckReads(const v1::GetRequest& request, const v1::GetResponse& merged) {
  const bool has_int_ids = request.has_int_ids();
  const int num_ids = has_int_ids ? request.int_ids().ids_size() : request.string_ids().ids_size();
  int found = 0;
  int missing = 0;
  for (int i = 0; i < num_ids; ++i) {
    const bool is_next = found < merged.documents_size() &&
                         (has_int_ids ? merged.documents(found).int_id() == request.int_ids().ids(i)
                                      : merged.documents(found).string_id() == request.string_ids().ids(i));
    if (is_next) {
      ++found;
      continue;
    }
    const bool is_missing = has_int_ids ? missing < merged.missing_int_ids().ids_size() &&
                                              merged.missing_int_ids().ids(missing) == request.int_ids().ids(i)
                                        : missing < merged.missing_string_ids().ids_size() &&
                                              merged.missing_string_ids().ids(missing) == request.string_ids().ids(i);
    Require(is_missing, "each id has its document, or is missing");
    ++missing;
  }
  Require(found == merged.documents_size() &&
              missing == merged.missing_int_ids().ids_size() + merged.missing_string_ids().ids_size(),
          "nothing comes that was not asked for");
}

void FuzzExplanation(Reader& input, uint8_t options) {
  v1::RerankRequest request;
  request.set_generation((options & kOwnLogs) != 0 ? 7 : 0);
  request.add_queries()->mutable_tokens()->set_num_tokens(2);
  request.mutable_candidates()->mutable_string_ids()->add_ids("doc-3");
  v1::ExplainResponse right;
  right.set_generation(7);
  right.set_score(1.5);
  right.set_num_query_tokens(2);
  right.set_num_document_tokens(3);
  for (int i = 0; i < 6; ++i) right.add_similarities(i);
  for (int i = 0; i < 3; ++i) right.add_document_tokens("word");
  const v1::ExplainResponse answer =
      ReadAnswers<v1::ExplainResponse>(input, (options & kRawAnswers) != 0, {right}).front();
  if (IsFault(cluster::CheckExplainAnswer(request, answer))) return;
  const auto json = nlohmann::json::parse(http::FormatExplanation("c", request.candidates(), answer), nullptr,
                                          /*allow_exceptions=*/false);
  Require(json.is_object(), "an explanation is JSON");
  Require(json["similarities"].size() == 2, "each token of the query has a row");
  for (const auto& row : json["similarities"]) {
    Require(row.size() == answer.num_document_tokens(), "each token of the document has a column");
  }
}

void FuzzInfo(Reader& input, uint8_t options) {
  static const std::vector<std::shared_ptr<cluster::Group>>& groups =
      *new std::vector<std::shared_ptr<cluster::Group>>(cluster::MakeGroups(kNumParts));
  std::vector<v1::GetInfoResponse> right(kNumParts);
  for (int part = 0; part < kNumParts; ++part) {
    v1::GetInfoResponse& info = right[static_cast<size_t>(part)];
    *info.add_collections() = cluster::InfoOf("c", 1, collection::PartitionOf(part, kNumParts));
    *info.add_collections() = cluster::InfoOf("live", 1, collection::PartitionOf(part, kNumParts));
    info.mutable_collections(1)->mutable_live()->set_log(cluster::kStreamLog);
  }
  std::vector<v1::GetInfoResponse> answers = ReadAnswers(input, (options & kRawAnswers) != 0, std::move(right));
  for (size_t part = 0; part < answers.size(); ++part) {
    cluster::Replica& replica = *groups[part]->replicas().front();
    if (IsFault(cluster::CheckInfoAnswer(answers[part]))) {
      replica.SetInfo(std::make_shared<v1::GetInfoResponse>());
    } else {
      replica.SetInfo(std::make_shared<v1::GetInfoResponse>(std::move(answers[part])));
    }
  }
  const std::shared_ptr<const cluster::View> view = cluster::View::Of(groups);
  for (const auto& [name, collection] : view->collections()) {
    const auto found = view->Find(name);
    if (!found.ok()) {
      Require(absl::IsUnavailable(found.status()) && IsUtf8(std::string(found.status().message())),
              "a collection that cannot be served says why");
      continue;
    }
    for (int32_t slot = 0; slot < collection::kNumSlots; ++slot) {
      Require((*found)->PartIndexOf(slot) < (*found)->parts.size(), "each slot is a part's");
      Require((*found)->PartOf(slot).slots.contains(slot), "a part has its slots");
    }
  }
}

// Fuzzes answers to changes of collections: a reload and a snapshot.
void FuzzChanges(Reader& input, uint8_t options) {
  const bool is_raw = (options & kRawAnswers) != 0;
  if ((options & kOwnLogs) != 0) {
    v1::ReloadCollectionResponse right;
    right.mutable_collection()->set_name("c");
    const auto answer = ReadAnswers<v1::ReloadCollectionResponse>(input, is_raw, {right}).front();
    if (IsFault(cluster::CheckChangedCollection("c", answer.collection()))) return;
    return Require(answer.collection().name() == "c", "a change is of the collection that was to be changed");
  }
  v1::SnapshotCollectionResponse right;
  right.set_sequence(kSequence);
  const auto answer = ReadAnswers<v1::SnapshotCollectionResponse>(input, is_raw, {right}).front();
  if (IsFault(cluster::CheckSnapshotAnswer(kSequence, answer))) return;
  Require(answer.sequence() >= kSequence && answer.sequence() < uint64_t{1} << 53, "a snapshot holds what was seen");
}

// Fuzzes the answers to a delete with a filter, which the router sends to all parts.
void FuzzMatchingDeletes(Reader& input, bool is_raw, const cluster::CollectionView& collection) {
  const auto request = std::make_shared<v1::DeleteRequest>();
  request->set_collection("c");
  request->set_filter_text("year < 2000");
  request->set_version(4);
  cluster::DealtCall<v1::DeleteRequest> sent;
  sent.one_log = collection.has_one_log();
  for (const cluster::CollectionView::Part& part : collection.parts) sent.Add(part, {}, request);
  const auto answers =
      CheckedAnswers<v1::DeleteRequest, v1::DeleteResponse>(input, is_raw, sent, cluster::CheckDeleteAnswer);
  if (answers.empty()) return;
  const v1::DeleteResponse merged = cluster::MergeDeletes(answers, sent.positions, sent.one_log);
  const uint64_t num_found = merged.num_deleted() + merged.num_missing() + merged.num_stale();
  Require(merged.results().empty(), "a delete with a filter has no results");
  Require(num_found <= answers.size() * service::kMaxDeleteIds, "no part deletes more than one call may");
  Require(!merged.has_more() || num_found > 0, "a call that has more has found something");
  for (const absl::StatusOr<v1::DeleteResponse>& answer : answers) {
    Require(!sent.one_log || merged.sequence() >= answer->sequence(), "the sequence has the deletes of every part");
  }
}

void FuzzGroupCalls(std::string_view bytes) {
  Reader input(bytes);
  const uint8_t call = input.Byte();
  const uint8_t options = input.Byte();
  const bool is_raw = (options & kRawAnswers) != 0;
  const bool has_int_ids = (options & kIntegerIds) != 0;
  const auto collection = MakeCollection(has_int_ids, (options & kOwnLogs) == 0);
  const service::RequestLimits limits;
  const auto fill_nothing = [](auto&) {};
  switch (call % 6) {
    case 0: {
      v1::UpsertRequest request = MakeUpsert(has_int_ids);
      const int num_writes = request.documents_size();
      cluster::DealtCall<v1::UpsertRequest> sent;
      Require(cluster::PartitionDocuments(request, *collection, limits, sent).ok(), "the request is right");
      const auto answers =
          CheckedAnswers<v1::UpsertRequest, v1::UpsertResponse>(input, is_raw, sent, cluster::CheckUpsertAnswer);
      if (answers.empty()) return;
      return CheckWrites(num_writes, sent, answers, cluster::MergeUpserts(answers, sent.positions, sent.one_log));
    }
    case 1: {
      if ((options & kWithFilter) != 0) return FuzzMatchingDeletes(input, is_raw, *collection);
      const auto request = MakeIds<v1::DeleteRequest>(has_int_ids);
      cluster::DealtCall<v1::DeleteRequest> sent;
      Require(cluster::PartitionRequest(request, *collection, limits, 100, fill_nothing, sent).ok(),
              "the request is right");
      const auto answers =
          CheckedAnswers<v1::DeleteRequest, v1::DeleteResponse>(input, is_raw, sent, cluster::CheckDeleteAnswer);
      if (answers.empty()) return;
      return CheckWrites(9, sent, answers, cluster::MergeDeletes(answers, sent.positions, sent.one_log));
    }
    case 2: {
      auto request = MakeIds<v1::GetRequest>(has_int_ids);
      request.set_return_tokens((options & kReturnTokens) != 0);
      cluster::DealtCall<v1::GetRequest> sent;
      const auto fill = [&](v1::GetRequest& of_part) { of_part.set_return_tokens(request.return_tokens()); };
      Require(cluster::PartitionRequest(request, *collection, limits, 100, fill, sent).ok(), "the request is right");
      const cluster::StoredShape shape{.storage = v1::DATA_TYPE_F16, .dim = kDim};
      auto answers = CheckedAnswers<v1::GetRequest, v1::GetResponse>(
          input, is_raw, sent, [&](const v1::GetRequest& of_part, const v1::GetResponse& answer) {
            return cluster::CheckGetAnswer(of_part, shape, answer);
          });
      if (answers.empty()) return;
      return CheckReads(request, cluster::MergeGets(request, std::move(answers), sent.positions, sent.one_log));
    }
    case 3:
      return FuzzExplanation(input, options);
    case 5:
      return FuzzChanges(input, options);
    default:
      return FuzzInfo(input, options);
  }
}

const Registration kGroupCallsTarget("group_calls", &FuzzGroupCalls);

}  // namespace
}  // namespace maxsim::fuzz
