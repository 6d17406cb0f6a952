// Finds the documents that a request may see (its filter `visible`) and, among these, the ones that match its own
// filter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/stop.h"
#include "collection/filters/canonical.h"
#include "collection/filters/filter.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/page/grouping.h"
#include "server/service/selection/filter_message.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/matching_documents.h"

namespace maxsim::service {

// Puts the field `visible` into INVALID_ARGUMENT. Keeps other errors.
absl::Status VisibleError(const absl::Status& error);

// Checks the part of `visible` that needs no collection (FilterOf).
absl::Status CheckVisible(const v1::Filter& visible);

// Checks that the collection holds all slots that the filter names (in_slots). Otherwise the answer would lack
// documents, so returns FAILED_PRECONDITION about `field` with the reason OTHER_SLOTS. A router gets this error if its
// layout of the collection differs from the server's.
absl::Status CheckSlotsHeld(const collection::Filter& filter, const store::Collection& collection,
                            std::string_view field);

// Returns `visible` in canonical form for the collection. Returns INVALID_ARGUMENT if the filter is invalid or does not
// suit the collection's fields, and the error of CheckSlotsHeld. Both errors name the field "visible".
absl::StatusOr<collection::Filter> CanonicalVisible(const v1::Filter& visible, const store::Collection& collection);

// Returns the documents that match `visible`, or null if every document does (Filter::Everything). Returns the errors
// of CanonicalVisible and of `check`.
absl::StatusOr<std::shared_ptr<const store::MatchingDocuments>> FindVisible(const v1::Filter& visible,
                                                                            const store::Collection& collection,
                                                                            const StopCheck& check);

// Replaces the ordinals of documents that are not visible by IdIndex::kUnknown.
void HideInvisible(const store::Collection& collection, const store::MatchingDocuments& visible,
                   absl::Span<uint64_t> ordinals);

// Returns the filter for documents that match both the request's filter and its `visible`, in canonical form. Returns
// nullopt if every document matches. Returns INVALID_ARGUMENT or the error of CheckSlotsHeld, naming the field of the
// filter that is wrong.
template <typename Request>
absl::StatusOr<std::optional<collection::Filter>> CanonicalSelection(const Request& request,
                                                                     const store::Collection& collection) {
  const absl::StatusOr<std::optional<collection::Filter>> filter = FilterOfRequest(request);
  if (!filter.ok()) return filter.status();
  std::vector<collection::Filter> filters;
  if (filter->has_value()) {
    // Text has no in_slots, so the error of a slot can only be about the message.
    if (absl::Status status = CheckSlotsHeld(**filter, collection, "filter"); !status.ok()) return status;
    absl::StatusOr<collection::Filter> canonical =
        collection::CanonicalFilter(**filter, collection.manifest().fields, collection.manifest().slots());
    if (!canonical.ok()) return FilterError(request, canonical.status());
    if (!canonical->is_everything()) filters.push_back(*std::move(canonical));
  }
  if (request.has_visible()) {
    absl::StatusOr<collection::Filter> visible = CanonicalVisible(request.visible(), collection);
    if (!visible.ok()) return visible.status();
    if (!visible->is_everything()) filters.push_back(*std::move(visible));
  }
  if (filters.empty()) return std::nullopt;
  return AllOf(std::move(filters));
}

// Returns the documents that match both the request's filter and its `visible`. Returns null if every document matches.
// Calls `check` now and then, and returns its error. Other errors as CanonicalSelection.
template <typename Request>
absl::StatusOr<std::shared_ptr<const store::MatchingDocuments>> FindSelected(const Request& request,
                                                                             const store::Collection& collection,
                                                                             const StopCheck& check) {
  const absl::StatusOr<std::optional<collection::Filter>> filter = CanonicalSelection(request, collection);
  if (!filter.ok()) return filter.status();
  if (!filter->has_value()) return nullptr;
  return collection.FindCanonical(**filter, store::FilterUse::kRepeated, check);
}

}  // namespace maxsim::service
