#include "server/service/documents/document_scroll.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "server/service/call/status.h"
#include "server/service/documents/document_counts.h"
#include "server/service/documents/document_reader.h"
#include "server/service/documents/document_write.h"
#include "server/service/request/translate.h"
#include "server/service/selection/selected_documents.h"
#include "server/store/collection/page_of_ids.h"

namespace maxsim::service {
namespace {

absl::Status CheckAfter(const v1::ScrollRequest& request, const DocumentRules& rules) {
  switch (request.after_case()) {
    case v1::ScrollRequest::kAfterStringId:
      return CheckReadId(request.after_string_id(), rules, "after_string_id");
    case v1::ScrollRequest::kAfterIntId:
      return CheckReadId(request.after_int_id(), rules, "after_int_id");
    case v1::ScrollRequest::AFTER_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

// Returns the error for a page that cannot even have its first document, because this alone is too large for an answer.
absl::Status FirstTooLarge(const v1::ScrollRequest& request, uint64_t num_bytes, const RequestLimits& limits) {
  return InvalidField(request.return_tokens()     ? "return_tokens"
                      : request.return_payloads() ? "return_payloads"
                                                  : "limit",
                      Cat("the next document alone takes ", num_bytes, " bytes, but an answer has at most ",
                          limits.max_answer_bytes, " (limits.max_answer_bytes)"),
                      {limits.max_answer_bytes, num_bytes, "limits.max_answer_bytes"});
}

template <typename Id>
absl::StatusOr<v1::ScrollResponse> ReadPage(const v1::ScrollRequest& request, const store::Collection& collection,
                                            const store::LiveDocuments* live, const store::MatchingDocuments* matching,
                                            const std::optional<Id>& after, const RequestLimits& limits,
                                            const StopCheck& check) {
  const absl::StatusOr<store::PageOfIds<Id>> page =
      store::FindPageOfIds<Id>(collection, matching, after, ScrollLimitOf(request), check);
  if (!page.ok()) return page.status();
  v1::ScrollResponse response;
  response.set_has_more(page->has_more);
  DocumentReader reader({.payloads = request.return_payloads(), .tokens = request.return_tokens()}, collection, live,
                        limits, response.mutable_documents());
  for (const auto& document : page->documents) {
    const absl::StatusOr<bool> added = reader.Add(document.id, document.ordinal);
    if (!added.ok()) return added.status();
    if (*added) continue;
    if (response.documents().empty()) return FirstTooLarge(request, reader.num_bytes(), limits);
    response.set_has_more(true);
    break;
  }
  if (absl::Status status = reader.CorrectVersions(); !status.ok()) return status;
  SetSnapshot(collection, response);
  return response;
}

}  // namespace

absl::Status CheckScrollLimit(uint64_t limit) {
  if (limit <= kMaxScrollDocuments) return absl::OkStatus();
  return InvalidField("limit", Cat("is ", limit, "; must be at most ", kMaxScrollDocuments),
                      {kMaxScrollDocuments, limit});
}

uint32_t ScrollLimitOf(const v1::ScrollRequest& request) {
  return request.limit() == 0 ? kDefaultScrollDocuments : request.limit();
}

absl::StatusOr<v1::ScrollResponse> ScrollDocuments(const v1::ScrollRequest& request,
                                                   const store::Collection& collection,
                                                   const store::LiveDocuments* live, const RequestLimits& limits,
                                                   ConcurrencyLimit* readers, const StopCheck& check) {
  absl::Status status = CheckSnapshotFor(request, collection);
  if (status.ok()) status = CheckScrollLimit(request.limit());
  if (status.ok()) status = CheckAfter(request, DocumentRulesOf(collection, limits));
  if (!status.ok()) return status;
  std::shared_ptr<const void> place;
  if (request.return_tokens()) {
    absl::StatusOr<std::shared_ptr<const void>> taken = readers->Take();
    if (!taken.ok()) return taken.status();
    place = *std::move(taken);
  }
  const auto matching = FindSelected(request, collection, check);
  if (!matching.ok()) return matching.status();
  if (collection.manifest().id_type == collection::IdType::kInt64) {
    std::optional<int64_t> after;
    if (request.has_after_int_id()) after = request.after_int_id();
    return ReadPage(request, collection, live, matching->get(), after, limits, check);
  }
  std::optional<std::string_view> after;
  if (request.has_after_string_id()) after = request.after_string_id();
  return ReadPage(request, collection, live, matching->get(), after, limits, check);
}

}  // namespace maxsim::service
