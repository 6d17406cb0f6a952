#include "server/service/documents/write_guard.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/types/span.h"
#include "base/text.h"
#include "client/error_details.h"
#include "collection/fields/field_reader.h"
#include "collection/filters/match.h"
#include "collection/slots.h"
#include "server/service/call/status.h"
#include "server/service/documents/document_write.h"
#include "server/service/selection/selected_documents.h"

namespace maxsim::service {
namespace {

const std::string& StringIdOf(const v1::Document& document) { return document.string_id(); }
const std::string& StringIdOf(const store::Write& write) { return write.string_id; }
int64_t IntIdOf(const v1::Document& document) { return document.int_id(); }
int64_t IntIdOf(const store::Write& write) { return write.int_id; }

int32_t SlotOfId(const v1::Document& document) {
  return document.has_int_id() ? collection::SlotOf(int64_t{document.int_id()})
                               : collection::SlotOf(std::string_view(document.string_id()));
}

// Returns the ordinal of each write's stored document, or kUnknown.
template <typename Writes>
std::vector<uint64_t> FindOrdinals(const Writes& writes, const store::Collection& collection) {
  std::vector<uint64_t> ordinals(static_cast<size_t>(writes.size()));
  if (collection.manifest().id_type == collection::IdType::kInt64) {
    std::vector<int64_t> ids;
    ids.reserve(ordinals.size());
    for (const auto& write : writes) ids.push_back(IntIdOf(write));
    collection.FindAll(absl::Span<const int64_t>(ids), absl::MakeSpan(ordinals));
  } else {
    std::vector<const std::string*> ids;
    ids.reserve(ordinals.size());
    for (const auto& write : writes) ids.push_back(&StringIdOf(write));
    collection.FindAll(absl::Span<const std::string* const>(ids), absl::MakeSpan(ordinals));
  }
  return ordinals;
}

}  // namespace

absl::Status CheckWrittenVisible(const v1::UpsertRequest& request, const store::Collection& collection) {
  if (!request.has_visible()) return absl::OkStatus();
  const absl::StatusOr<collection::Filter> visible = CanonicalVisible(request.visible(), collection);
  if (!visible.ok()) return visible.status();
  if (visible->is_everything()) return absl::OkStatus();
  const std::vector<collection::Field>& fields = collection.manifest().fields;
  collection::FieldReader reader(fields);
  for (int i = 0; i < request.documents_size(); ++i) {
    const std::string path = Cat(DocumentPath(i), ".payload");
    const auto values = reader.Read(TrimmedPayload(request.documents(i).payload()));
    if (!values.ok()) return InvalidField(path, std::string(values.status().message()));
    if (collection::MatchesFilter(*visible, fields, **values, SlotOfId(request.documents(i)))) continue;
    return InvalidField(path, "does not match the filter that bounds what this client may write");
  }
  return absl::OkStatus();
}

absl::Status CheckReplacedVisible(const v1::UpsertRequest& request, const store::Collection& collection,
                                  const StopCheck& check) {
  if (!request.has_visible()) return absl::OkStatus();
  const auto visible = FindVisible(request.visible(), collection, check);
  if (!visible.ok()) return visible.status();
  if (*visible == nullptr) return absl::OkStatus();
  const std::vector<uint64_t> ordinals = FindOrdinals(request.documents(), collection);
  for (size_t i = 0; i < ordinals.size(); ++i) {
    const uint64_t ordinal = ordinals[i];
    if (ordinal == store::IdIndex::kUnknown || (*visible)->Contains(collection.Locate(ordinal))) continue;
    return FieldError(absl::StatusCode::kPermissionDenied, client::kReasonInvalidField,
                      DocumentPath(static_cast<int>(i)), "has an id that this client may not write");
  }
  return absl::OkStatus();
}

absl::Status LeaveOutHidden(const v1::Filter& visible, const store::Collection& collection, const StopCheck& check,
                            GuardedDeletes& deletes) {
  const auto matching = FindVisible(visible, collection, check);
  if (!matching.ok()) return matching.status();
  if (*matching == nullptr) return absl::OkStatus();
  std::vector<store::Write>& writes = deletes.writes;
  std::vector<uint64_t> ordinals = FindOrdinals(writes, collection);
  HideInvisible(collection, **matching, absl::MakeSpan(ordinals));
  size_t next = 0;
  size_t num_kept = 0;
  for (size_t i = 0; i < deletes.is_visible.size(); ++i) {
    if (!deletes.is_visible[i]) continue;
    if (ordinals[next] == store::IdIndex::kUnknown) {
      deletes.is_visible[i] = false;
    } else {
      if (num_kept != next) writes[num_kept] = std::move(writes[next]);
      ++num_kept;
    }
    ++next;
  }
  writes.resize(num_kept);
  return absl::OkStatus();
}

store::WriteResults WithHidden(const store::WriteResults& written, const std::vector<bool>& is_visible) {
  if (std::find(is_visible.begin(), is_visible.end(), false) == is_visible.end()) return written;
  store::WriteResults all{.results = {}, .sequence = written.sequence};
  all.results.reserve(is_visible.size());
  size_t next = 0;
  for (const bool visible : is_visible) {
    all.results.push_back(visible ? written.results[next++]
                                  : store::WriteResult{.outcome = store::WriteResult::Outcome::kNotFound});
  }
  return all;
}

}  // namespace maxsim::service
