#include "server/cluster/parts/merge_scroll.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/cluster/parts/answer_snapshot.h"
#include "server/service/documents/document_scroll.h"

namespace maxsim::cluster {
namespace {

// Bytes that each document adds to the answer besides its own (a tag and a length of protobuf), rounded up.
constexpr uint64_t kFieldBytes = 6;

bool IsBefore(const v1::StoredDocument& a, const v1::StoredDocument& b) {
  if (a.has_int_id()) return a.int_id() < b.int_id();
  return std::string_view(a.string_id()) < std::string_view(b.string_id());
}

bool IsAfterStart(const v1::ScrollRequest& request, const v1::StoredDocument& document) {
  switch (request.after_case()) {
    case v1::ScrollRequest::kAfterStringId:
      return std::string_view(document.string_id()) > std::string_view(request.after_string_id());
    case v1::ScrollRequest::kAfterIntId:
      return document.int_id() > request.after_int_id();
    case v1::ScrollRequest::AFTER_NOT_SET:
      break;
  }
  return true;
}

// A group's page, and the index of its first document that is not yet in the merged page.
struct Page {
  v1::ScrollResponse* answer;
  int next = 0;

  bool is_done() const { return next == answer->documents_size(); }
  v1::StoredDocument& document() const { return *answer->mutable_documents(next); }
};

// Returns the page whose next document has the smallest id, or null if all pages are used up.
Page* FirstOf(std::vector<Page>& pages) {
  Page* first = nullptr;
  for (Page& page : pages) {
    if (page.is_done()) continue;
    if (first == nullptr || IsBefore(page.document(), first->document())) first = &page;
  }
  return first;
}

}  // namespace

std::optional<AnswerFault> CheckScrollAnswer(const v1::ScrollRequest& request, bool has_int_ids,
                                             const StoredShape& shape, const v1::ScrollResponse& answer) {
  if (std::optional<AnswerFault> fault = CheckSnapshot(request, answer); fault.has_value()) return fault;
  const uint32_t limit = service::ScrollLimitOf(request);
  if (static_cast<uint32_t>(answer.documents_size()) > limit || (answer.has_more() && answer.documents().empty())) {
    return AnswerFault{"documents",
                       absl::StrCat("documents has ", answer.documents_size(), " elements",
                                    answer.has_more() ? " of more" : "", ", but ", limit, " were asked for")};
  }
  for (int i = 0; i < answer.documents_size(); ++i) {
    const v1::StoredDocument& document = answer.documents(i);
    if (has_int_ids ? !document.has_int_id() : !document.has_string_id()) {
      return AnswerFault{"id", absl::StrCat("documents[", i, "] has no id of the collection's type")};
    }
    if (i == 0 ? !IsAfterStart(request, document) : !IsBefore(answer.documents(i - 1), document)) {
      return AnswerFault{"id", absl::StrCat("documents[", i, "] is not after ",
                                            i == 0 ? "request.after" : absl::StrCat("documents[", i - 1, "]"),
                                            " in the order of ids")};
    }
    std::optional<AnswerFault> fault = CheckStoredDocument(request.return_tokens(), shape, document, i);
    if (fault.has_value()) return fault;
  }
  return std::nullopt;
}

v1::ScrollResponse MergeScrolls(const v1::ScrollRequest& request, const CollectionView& collection,
                                std::vector<absl::StatusOr<v1::ScrollResponse>> answers, uint64_t max_bytes) {
  if (answers.size() == 1) return *std::move(answers.front());
  v1::ScrollResponse merged;
  MergeSnapshot(collection, answers, merged);
  std::vector<Page> pages;
  pages.reserve(answers.size());
  for (absl::StatusOr<v1::ScrollResponse>& answer : answers) pages.push_back({.answer = &*answer});
  const auto limit = static_cast<int>(service::ScrollLimitOf(request));
  uint64_t num_bytes = merged.ByteSizeLong();
  for (Page* page = FirstOf(pages); page != nullptr; page = FirstOf(pages)) {
    num_bytes += page->document().ByteSizeLong() + kFieldBytes;
    const bool is_full = merged.documents_size() == limit || (num_bytes > max_bytes && !merged.documents().empty());
    if (is_full) {
      merged.set_has_more(true);
      break;
    }
    *merged.add_documents() = std::move(page->document());
    ++page->next;
    if (page->is_done() && page->answer->has_more()) {
      merged.set_has_more(true);
      break;
    }
  }
  return merged;
}

}  // namespace maxsim::cluster
