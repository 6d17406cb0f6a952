#include "server/service/documents/document_read.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/service/call/status.h"
#include "server/service/documents/document_write.h"
#include "server/service/request/translate.h"
#include "server/service/selection/selected_documents.h"

namespace maxsim::service {
namespace {

absl::Status TooLarge(int num_documents, uint64_t num_bytes, const RequestLimits& limits) {
  return InvalidField(
      "ids",
      absl::StrCat("the first ", num_documents, " documents take ", num_bytes, " bytes, but an answer has at most ",
                   limits.max_answer_bytes, " (limits.max_answer_bytes); ask for fewer, or without return_tokens"),
      {limits.max_answer_bytes, num_bytes, "limits.max_answer_bytes"});
}

// Adds the documents with these ids to `reader`. `get` returns the id of an element of `ids`. Calls `add_missing` for
// each id that the collection does not hold, or whose document `visible` lacks. If `visible` is null, it lacks none.
template <typename Element, typename Get, typename AddMissing>
absl::Status ReadAll(absl::Span<const Element> ids, const store::Collection& collection,
                     const store::MatchingDocuments* visible, const RequestLimits& limits, DocumentReader& reader,
                     Get get, AddMissing add_missing) {
  std::vector<uint64_t> ordinals(ids.size());
  collection.FindAll(ids, absl::MakeSpan(ordinals));
  if (visible != nullptr) HideInvisible(collection, *visible, absl::MakeSpan(ordinals));
  int num_documents = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto& id = get(ids[i]);
    if (ordinals[i] == store::IdIndex::kUnknown) {
      add_missing(id);
      continue;
    }
    const absl::StatusOr<bool> added = reader.Add(id, ordinals[i]);
    if (!added.ok()) return added.status();
    ++num_documents;
    if (!*added) return TooLarge(num_documents, reader.num_bytes(), limits);
  }
  return reader.CorrectVersions();
}

}  // namespace

absl::StatusOr<v1::GetResponse> ReadDocuments(const v1::GetRequest& request, const store::Collection& collection,
                                              const store::LiveDocuments* live, const RequestLimits& limits,
                                              ConcurrencyLimit* readers) {
  if (absl::Status status = CheckSequence(request.min_sequence(), collection); !status.ok()) return status;
  const DocumentRules rules = DocumentRulesOf(collection, limits);
  absl::Status status;
  switch (request.ids_case()) {
    case v1::GetRequest::kStringIds:
      status = CheckIds(request.string_ids(), rules, kMaxGetIds);
      break;
    case v1::GetRequest::kIntIds:
      status = CheckIds(request.int_ids(), rules, kMaxGetIds);
      break;
    case v1::GetRequest::IDS_NOT_SET:
      status = InvalidField("ids", "neither string_ids nor int_ids is set");
      break;
  }
  if (!status.ok()) return status;
  std::shared_ptr<const store::MatchingDocuments> visible;
  if (request.has_visible()) {
    auto found = FindVisible(request.visible(), collection, /*check=*/nullptr);
    if (!found.ok()) return found.status();
    visible = *std::move(found);
  }
  std::shared_ptr<const void> place;
  if (request.return_tokens()) {
    absl::StatusOr<std::shared_ptr<const void>> taken = readers->Take();
    if (!taken.ok()) return taken.status();
    place = *std::move(taken);
  }
  v1::GetResponse response;
  response.set_generation(static_cast<uint64_t>(collection.manifest().generation));
  response.set_sequence(collection.sequence());
  DocumentReader reader({.payloads = true, .tokens = request.return_tokens()}, collection, live, limits,
                        response.mutable_documents());
  if (request.has_string_ids()) {
    const auto& ids = request.string_ids().ids();
    status = ReadAll(
        absl::Span<const std::string* const>(ids.data(), static_cast<size_t>(ids.size())), collection, visible.get(),
        limits, reader, [](const std::string* id) -> const std::string& { return *id; },
        [&](const std::string& id) { response.mutable_missing_string_ids()->add_ids(id); });
  } else {
    const auto& ids = request.int_ids().ids();
    status = ReadAll(
        absl::Span<const int64_t>(ids.data(), static_cast<size_t>(ids.size())), collection, visible.get(), limits,
        reader, [](const int64_t& id) -> const int64_t& { return id; },
        [&](int64_t id) { response.mutable_missing_int_ids()->add_ids(id); });
  }
  if (!status.ok()) return status;
  return response;
}

}  // namespace maxsim::service
