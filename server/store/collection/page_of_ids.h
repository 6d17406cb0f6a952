// Lists the documents of a collection in the order of their ids, page by page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "server/store/collection/collection.h"

namespace maxsim::store {

// Id is the type of the collection's ids: std::string_view, in the order of the bytes, or int64_t.
template <typename Id>
struct PageOfIds {
  struct Document {
    Id id;                 // a string is valid as long as the collection is
    uint64_t ordinal = 0;  // in the collection
  };
  std::vector<Document> documents;  // by id, ascending
  bool has_more = false;            // more documents match, with ids after the last one
};

// Says whether a page may have the document with this id. An error ends the search.
template <typename Id>
using IdCheck = std::function<absl::StatusOr<bool>(const Id& id)>;

// Finds the documents with the `limit` smallest ids. If `after` is set, counts only ids greater than it. Chooses from
// the documents of `matching`, or from all documents that are alive if `matching` is null. `limit` must not be 0,
// `matching` must have been found in this snapshot, and Id must be the type of the collection's ids. Looks at every
// document that matches, but takes memory only for the documents that it returns. Calls `check` (may be null) every
// 65,536 documents, and returns its error if it returns one.
//
// If `accepts` is set, leaves out the documents for which it returns false: the page and has_more are as if they did
// not match. Calls `accepts` at most once for each document that matches, and `check` also after each 1,024 of these
// calls.
//
// With `accepts`, the search may end before it has looked at all documents. It ends when `accepts` was called at least
// `max_accepts` times, and at least twice as often as it took to accept the first document. The page then has documents
// that match, but maybe not those with the smallest ids, and has_more is set if a document was not looked at. The
// factor of two is for callers that delete each page and search again: all their searches together call `accepts` only
// a few times for each document. A page with has_more is never empty.
template <typename Id>
absl::StatusOr<PageOfIds<Id>> FindPageOfIds(const Collection& collection, const MatchingDocuments* matching,
                                            const std::optional<Id>& after, size_t limit,
                                            const StopCheck& check = nullptr, const IdCheck<Id>& accepts = nullptr,
                                            uint64_t max_accepts = UINT64_MAX);

extern template absl::StatusOr<PageOfIds<std::string_view>> FindPageOfIds(const Collection&, const MatchingDocuments*,
                                                                          const std::optional<std::string_view>&,
                                                                          size_t, const StopCheck&,
                                                                          const IdCheck<std::string_view>&, uint64_t);
extern template absl::StatusOr<PageOfIds<int64_t>> FindPageOfIds(const Collection&, const MatchingDocuments*,
                                                                 const std::optional<int64_t>&, size_t,
                                                                 const StopCheck&, const IdCheck<int64_t>&, uint64_t);

}  // namespace maxsim::store
