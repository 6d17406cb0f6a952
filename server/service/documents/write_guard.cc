#include "server/service/documents/write_guard.h"

#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"
#include "base/text.h"
#include "client/error_details.h"
#include "collection/fields/field_reader.h"
#include "collection/filters/match.h"
#include "server/service/call/status.h"
#include "server/service/documents/document_write.h"
#include "server/service/selection/selected_documents.h"

namespace maxsim::service {
namespace {

// Returns the ordinals of the stored documents that a request may replace, or kUnknown.
std::vector<uint64_t> FindOrdinals(const v1::UpsertRequest& request, const store::Collection& collection) {
  std::vector<uint64_t> ordinals(static_cast<size_t>(request.documents_size()));
  if (collection.manifest().id_type == collection::IdType::kInt64) {
    std::vector<int64_t> ids;
    for (const v1::Document& document : request.documents()) ids.push_back(document.int_id());
    collection.FindAll(absl::Span<const int64_t>(ids), absl::MakeSpan(ordinals));
  } else {
    std::vector<const std::string*> ids;
    for (const v1::Document& document : request.documents()) ids.push_back(&document.string_id());
    collection.FindAll(absl::Span<const std::string* const>(ids), absl::MakeSpan(ordinals));
  }
  return ordinals;
}

}  // namespace

absl::Status CheckWrittenVisible(const v1::UpsertRequest& request, const store::Collection& collection) {
  if (!request.has_visible()) return absl::OkStatus();
  const absl::StatusOr<collection::Filter> visible = CanonicalVisible(request.visible(), collection);
  if (!visible.ok()) return visible.status();
  const std::vector<collection::Field>& fields = collection.manifest().fields;
  collection::FieldReader reader(fields);
  for (int i = 0; i < request.documents_size(); ++i) {
    const std::string path = Cat(DocumentPath(i), ".payload");
    const auto values = reader.Read(TrimmedPayload(request.documents(i).payload()));
    if (!values.ok()) return InvalidField(path, std::string(values.status().message()));
    if (collection::MatchesFilter(*visible, fields, **values)) continue;
    return InvalidField(path, "does not match the filter that bounds what this client may write");
  }
  return absl::OkStatus();
}

absl::Status CheckReplacedVisible(const v1::UpsertRequest& request, const store::Collection& collection,
                                  const StopCheck& check) {
  if (!request.has_visible()) return absl::OkStatus();
  const auto visible = FindVisible(request.visible(), collection, check);
  if (!visible.ok()) return visible.status();
  const std::vector<uint64_t> ordinals = FindOrdinals(request, collection);
  for (size_t i = 0; i < ordinals.size(); ++i) {
    const uint64_t ordinal = ordinals[i];
    if (ordinal == store::IdIndex::kUnknown || (*visible)->Contains(collection.Locate(ordinal))) continue;
    return FieldError(absl::StatusCode::kPermissionDenied, client::kReasonInvalidField,
                      DocumentPath(static_cast<int>(i)), "has an id that this client may not write");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<bool>> FindVisibleIds(const v1::DeleteRequest& request, const store::Collection& collection,
                                                 const StopCheck& check) {
  const bool has_ints = request.has_int_ids();
  const int count = has_ints ? request.int_ids().ids_size() : request.string_ids().ids_size();
  std::vector<bool> is_visible(static_cast<size_t>(count), true);
  if (!request.has_visible()) return is_visible;
  const auto visible = FindVisible(request.visible(), collection, check);
  if (!visible.ok()) return visible.status();
  std::vector<uint64_t> ordinals(is_visible.size());
  if (has_ints) {
    collection.FindAll(absl::Span<const int64_t>(request.int_ids().ids().data(), ordinals.size()),
                       absl::MakeSpan(ordinals));
  } else {
    collection.FindAll(absl::Span<const std::string* const>(request.string_ids().ids().data(), ordinals.size()),
                       absl::MakeSpan(ordinals));
  }
  for (size_t i = 0; i < ordinals.size(); ++i) {
    is_visible[i] = ordinals[i] != store::IdIndex::kUnknown && (*visible)->Contains(collection.Locate(ordinals[i]));
  }
  return is_visible;
}

}  // namespace maxsim::service
