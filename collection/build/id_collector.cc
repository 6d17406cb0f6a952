#include "collection/build/document_input.h"

#include <utility>

#include "base/text.h"
#include "collection/build/sources/document_lines.h"

namespace maxsim::collection {
Catalog& IdCollector::CatalogOf(IdType type) {
  if (catalog_ == nullptr) catalog_ = std::make_unique<Catalog>(asked_.value_or(type));
  return *catalog_;
}

absl::Status IdCollector::Add(int64_t id) {
  IdList& ids = CatalogOf(IdType::kInt64).ids;
  if (ids.type() == IdType::kInt64) return Report(ids.Add(id));
  DocumentLine document{.id_type = IdType::kInt64, .string_id = {}, .int_id = id, .payload = {}};
  if (absl::Status status = ConvertId(document, ids.type(), asked_.has_value()); !status.ok()) return status;
  return Report(ids.Add(std::string_view(document.string_id)));
}

absl::Status IdCollector::Add(std::string_view id) {
  IdList& ids = CatalogOf(IdType::kString).ids;
  if (ids.type() == IdType::kString) return Report(ids.Add(id));
  DocumentLine document{.id_type = IdType::kString, .string_id = std::string(id), .int_id = 0, .payload = {}};
  if (absl::Status status = ConvertId(document, ids.type(), asked_.has_value()); !status.ok()) return status;
  return Report(ids.Add(document.int_id));
}

absl::Status IdCollector::Report(const absl::Status& added) const {
  constexpr int64_t kReportInterval = 4096;
  // A duplicate id is an error in the imported file, so turns ALREADY_EXISTS into INVALID_ARGUMENT.
  if (absl::IsAlreadyExists(added)) return Invalid(added.message(), " (counted from 0)");
  const int64_t count = catalog_->ids.size();
  if (!added.ok() || observer_ == nullptr || count % kReportInterval != 1) return added;
  return observer_(
      {.stage = BuildProgress::Stage::kReading, .documents_done = count, .documents_total = num_documents_});
}

absl::Status AtPlace(std::string_view place, const absl::Status& added) {
  return absl::IsInvalidArgument(added) ? Prefix(place, added) : added;
}

}  // namespace maxsim::collection
