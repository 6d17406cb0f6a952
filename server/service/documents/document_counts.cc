#include "server/service/documents/document_counts.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/text.h"
#include "collection/field.h"
#include "kernels/scalar_type.h"
#include "server/service/call/status.h"
#include "server/service/request/translate.h"
#include "server/service/selection/selected_documents.h"
#include "server/store/collection/facets.h"
#include "server/store/collection/matching_documents.h"

namespace maxsim::service {
namespace {

// The retry delay. Counting facets of a million documents takes less time.
constexpr absl::Duration kFacetsRetryDelay = absl::Milliseconds(100);

absl::Status CheckFacetsField(const std::string& name, const store::Collection& collection) {
  const std::vector<collection::Field>& fields = collection.manifest().fields;
  const std::string of_collection = Cat("collection ", Quote(collection.name()));
  if (fields.empty()) {
    return InvalidField("field", Cat("is ", Quote(name), ", but ", of_collection, " has no fields"));
  }
  const collection::Field* const field = collection::FindField(fields, name);
  if (field == nullptr) {
    std::string names;
    for (const collection::Field& one : fields) {
      if (one.kind != collection::FieldKind::kKeyword && one.kind != collection::FieldKind::kKeywords) continue;
      names += (names.empty() ? "" : ", ") + one.name;
    }
    return InvalidField("field", Cat("is ", Quote(name), ", which ", of_collection, " does not declare; its ",
                                     "fields of kind keyword and keywords are: ", names.empty() ? "none" : names));
  }
  if (field->kind == collection::FieldKind::kKeyword || field->kind == collection::FieldKind::kKeywords) {
    return absl::OkStatus();
  }
  return InvalidField("field", Cat("is ", Quote(name), ", which is of kind ", collection::Name(field->kind),
                                   "; only the values of keyword and keywords are counted"));
}

}  // namespace

ConcurrencyLimit PassLimit(int max_calls) { return {max_calls, "calls of Facets and Scroll", kFacetsRetryDelay}; }

absl::Status CheckFacetsLimit(uint64_t limit) {
  if (limit <= kMaxFacetValues) return absl::OkStatus();
  return InvalidField("limit", Cat("is ", limit, "; must be at most ", kMaxFacetValues), {kMaxFacetValues, limit});
}

absl::Status CheckFacetsSize(const v1::FacetsResponse& response, const RequestLimits& limits) {
  const auto bytes = static_cast<uint64_t>(response.ByteSizeLong());
  if (bytes <= limits.max_answer_bytes) return absl::OkStatus();
  return InvalidField("limit",
                      Cat("the ", response.values_size(), " values take ", bytes, " bytes, but an answer has at most ",
                          limits.max_answer_bytes, " (limits.max_answer_bytes); ask for fewer"),
                      {limits.max_answer_bytes, bytes, "limits.max_answer_bytes"});
}

absl::StatusOr<v1::CountResponse> CountDocuments(const v1::CountRequest& request, const store::Collection& collection,
                                                 const StopCheck& check) {
  if (absl::Status status = CheckSnapshotFor(request, collection); !status.ok()) return status;
  const auto matching = FindSelected(request, collection, check);
  if (!matching.ok()) return matching.status();
  v1::CountResponse response;
  response.set_count(*matching == nullptr ? collection.num_documents() : (*matching)->num_documents());
  if (request.return_token_bytes()) {
    const uint64_t num_tokens = *matching == nullptr ? collection.num_tokens() : (*matching)->num_tokens();
    response.set_token_bytes(num_tokens * static_cast<uint64_t>(RowBytes(collection.storage(), collection.dim())));
  }
  SetSnapshot(collection, response);
  return response;
}

absl::StatusOr<v1::FacetsResponse> CountFacetsOf(const v1::FacetsRequest& request, const store::Collection& collection,
                                                 const RequestLimits& limits, const StopCheck& check) {
  if (absl::Status status = CheckSnapshotFor(request, collection); !status.ok()) return status;
  if (absl::Status status = CheckFacetsLimit(request.limit()); !status.ok()) return status;
  if (absl::Status status = CheckFacetsField(request.field(), collection); !status.ok()) return status;
  const auto matching = FindSelected(request, collection, check);
  if (!matching.ok()) return matching.status();
  const uint32_t limit = request.limit() == 0 ? kDefaultFacetValues : request.limit();
  const absl::StatusOr<store::Facets> facets =
      store::CountFacets(collection, request.field(), matching->get(), limit, check);
  if (!facets.ok()) return facets.status();
  v1::FacetsResponse response;
  for (const store::Facets::Value& value : facets->values) {
    v1::FacetValue& added = *response.add_values();
    added.set_value(value.value);
    added.set_count(value.count);
  }
  response.set_num_values(facets->num_values);
  response.set_num_documents(facets->num_documents);
  SetSnapshot(collection, response);
  if (absl::Status status = CheckFacetsSize(response, limits); !status.ok()) return status;
  return response;
}

}  // namespace maxsim::service
