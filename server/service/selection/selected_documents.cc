#include "server/service/selection/selected_documents.h"

#include <string_view>

#include "base/text.h"
#include "client/error_details.h"
#include "collection/slots.h"

namespace maxsim::service {

absl::Status VisibleError(const absl::Status& error) {
  if (!absl::IsInvalidArgument(error)) return error;
  const absl::string_view problem = error.message();
  return client::InvalidField("visible", std::string_view(problem.data(), problem.size()));
}

absl::Status CheckVisible(const v1::Filter& visible) { return VisibleError(FilterOf(visible).status()); }

absl::Status CheckSlotsHeld(const collection::Filter& filter, const store::Collection& collection,
                            std::string_view field) {
  const collection::SlotRange held = collection.manifest().slots();
  const std::optional<collection::SlotRange> outside = collection::FindSlotsOutside(filter, held);
  if (!outside.has_value()) return absl::OkStatus();
  return client::FieldError(absl::StatusCode::kFailedPrecondition, client::kReasonOtherSlots, field,
                            Cat("asks for ", collection::DescribeSlots(*outside), ", but this server holds only ",
                                collection::DescribeSlots(held), " of collection ", Quote(collection.name())));
}

absl::StatusOr<collection::Filter> CanonicalVisible(const v1::Filter& visible, const store::Collection& collection) {
  const absl::StatusOr<collection::Filter> filter = FilterOf(visible);
  if (!filter.ok()) return VisibleError(filter.status());
  if (absl::Status status = CheckSlotsHeld(*filter, collection, "visible"); !status.ok()) return status;
  absl::StatusOr<collection::Filter> canonical =
      collection::CanonicalFilter(*filter, collection.manifest().fields, collection.manifest().slots());
  if (!canonical.ok()) return VisibleError(canonical.status());
  return canonical;
}

absl::StatusOr<std::shared_ptr<const store::MatchingDocuments>> FindVisible(const v1::Filter& visible,
                                                                            const store::Collection& collection,
                                                                            const StopCheck& check) {
  const absl::StatusOr<collection::Filter> canonical = CanonicalVisible(visible, collection);
  if (!canonical.ok()) return canonical.status();
  if (canonical->is_everything()) return nullptr;
  return collection.FindCanonical(*canonical, store::FilterUse::kRepeated, check);
}

void HideInvisible(const store::Collection& collection, const store::MatchingDocuments& visible,
                   absl::Span<uint64_t> ordinals) {
  for (uint64_t& ordinal : ordinals) {
    if (ordinal == store::IdIndex::kUnknown || visible.Contains(collection.Locate(ordinal))) continue;
    ordinal = store::IdIndex::kUnknown;
  }
}

}  // namespace maxsim::service
