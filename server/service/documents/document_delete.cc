#include "server/service/documents/document_delete.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/time/time.h"
#include "base/text.h"
#include "client/status.h"
#include "server/service/call/status.h"
#include "server/service/documents/document_write.h"
#include "server/service/request/translate.h"
#include "server/service/selection/selected_documents.h"
#include "server/store/collection/page_of_ids.h"

namespace maxsim::service {
namespace {

// How long a client that was refused should wait. A delete by filter may take seconds, and clients make only a few
// attempts.
constexpr absl::Duration kDeleteRetryDelay = absl::Seconds(1);

// How long a client should wait while the collection's stream is lost. The server connects to it again by itself.
constexpr absl::Duration kStreamRetryDelay = absl::Seconds(1);

template <typename Id>
absl::StatusOr<MatchingDeletes> DeletesOf(const v1::DeleteRequest& request, const store::Collection& collection,
                                          const store::LiveDocuments& live, const store::MatchingDocuments* matching,
                                          size_t max_documents, uint64_t max_versions, const StopCheck& check) {
  store::IdCheck<Id> is_older;
  if (request.version() != 0) {
    is_older = [&](const Id& id) -> absl::StatusOr<bool> {
      const absl::StatusOr<uint64_t> version = live.VersionOf(id);
      if (!version.ok()) return version.status();
      return *version < request.version();
    };
  }
  const absl::StatusOr<store::PageOfIds<Id>> page =
      store::FindPageOfIds<Id>(collection, matching, std::nullopt, max_documents, check, is_older, max_versions);
  if (!page.ok()) return page.status();
  MatchingDeletes deletes{.writes = {}, .has_more = page->has_more};
  deletes.writes.reserve(page->documents.size());
  for (const auto& document : page->documents) {
    store::Write& write = deletes.writes.emplace_back();
    write.kind = collection::LogRecord::Kind::kDelete;
    write.version = request.version();
    if constexpr (std::is_same_v<Id, int64_t>) {
      write.int_id = document.id;
    } else {
      write.string_id = std::string(document.id);
    }
  }
  return deletes;
}

}  // namespace

absl::Status CheckDeleteSelection(const v1::DeleteRequest& request) {
  const bool has_ids = request.ids_case() != v1::DeleteRequest::IDS_NOT_SET;
  if (has_ids && HasFilter(request)) {
    return InvalidField("ids", "is set, and so is a filter; set only one of them");
  }
  if (!has_ids && !HasFilter(request)) {
    return InvalidField("ids", "none of string_ids, int_ids and a filter is set");
  }
  if (has_ids && request.min_sequence() != 0) {
    return InvalidField("min_sequence",
                        Cat("is ", request.min_sequence(), ", but only a delete with a filter has one"));
  }
  return absl::OkStatus();
}

size_t MaxDeletesOf(const store::LiveState& state) {
  return state.stream.has_value() ? kMaxStreamedDeletes : size_t{kMaxDeleteIds};
}

absl::Status CheckStream(const std::string& name, const store::LiveState& state) {
  if (!state.stream.has_value() || state.stream->connected) return absl::OkStatus();
  if (absl::IsFailedPrecondition(state.status)) return state.status;
  absl::Status status = absl::UnavailableError(
      Cat("collection ", name, " does not follow its stream now, so its documents may be out of date",
          state.status.ok() ? "" : ": ", std::string(state.status.message())));
  client::SetRetryAfter(kStreamRetryDelay, status);
  return status;
}

ConcurrencyLimit MatchingDeleteLimit() { return {kMaxMatchingDeletes, "deletes with a filter", kDeleteRetryDelay}; }

absl::StatusOr<MatchingDeletes> FindMatchingDeletes(const v1::DeleteRequest& request,
                                                    const store::Collection& collection,
                                                    const store::LiveDocuments& live, size_t max_documents,
                                                    uint64_t max_versions, const StopCheck& check) {
  if (check != nullptr) {
    if (absl::Status status = check(); !status.ok()) return status;
  }
  if (absl::Status status = CheckSequence(request.min_sequence(), collection); !status.ok()) return status;
  const auto matching = FindSelected(request, collection, check);
  if (!matching.ok()) return matching.status();
  if (collection.manifest().id_type == collection::IdType::kInt64) {
    return DeletesOf<int64_t>(request, collection, live, matching->get(), max_documents, max_versions, check);
  }
  return DeletesOf<std::string_view>(request, collection, live, matching->get(), max_documents, max_versions, check);
}

v1::DeleteResponse MatchingDeletesAnswer(const store::WriteResults& written, bool has_more) {
  v1::DeleteResponse response;
  uint64_t num_deleted = 0;
  uint64_t num_missing = 0;
  uint64_t num_stale = 0;
  for (const store::WriteResult& result : written.results) {
    switch (result.outcome) {
      case store::WriteResult::Outcome::kApplied:
        ++num_deleted;
        break;
      case store::WriteResult::Outcome::kNotFound:
        ++num_missing;
        break;
      case store::WriteResult::Outcome::kStale:
        ++num_stale;
        break;
    }
  }
  response.set_sequence(written.sequence);
  response.set_num_deleted(num_deleted);
  response.set_num_missing(num_missing);
  response.set_num_stale(num_stale);
  response.set_has_more(has_more);
  return response;
}

}  // namespace maxsim::service
