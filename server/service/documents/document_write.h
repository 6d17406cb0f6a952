// Validates documents and ids before they are written, and converts documents to the form that a live collection takes.
// These functions have no state and do no I/O.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/field.h"
#include "collection/fields/field_reader.h"
#include "collection/manifest.h"
#include "collection/slots.h"
#include "maxsim/v1/documents.pb.h"
#include "server/service/call/limits.h"
#include "server/service/request/stored_rows.h"
#include "server/service/request/token_matrix.h"
#include "server/store/collection/collection.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// The maximum number of documents in one upsert, and of ids in one delete or get.
inline constexpr int kMaxUpsertDocuments = 10'000;
inline constexpr int kMaxDeleteIds = 100'000;
inline constexpr int kMaxGetIds = 1'000;

// Rules that documents of a collection must satisfy.
struct DocumentRules {
  std::string collection;  // its name
  collection::IdType id_type = collection::IdType::kString;
  collection::SlotRange slots;  // slots whose documents the collection holds
  StoredForm form;
  bool refuse_lossy_tokens = false;  // see RequestLimits
  // The declared fields, to whose types payloads must fit. Empty in a router, because its groups of servers check this.
  std::vector<collection::Field> fields = {};
};
DocumentRules DocumentRulesOf(const store::Collection& collection, const RequestLimits& limits);

// Checks everything in a document except the values of its tokens: the id and its slot, that the document has either
// tokens or a text, the shape of the tokens, the payload and the values of its fields. `reader` must have been made for
// rules.fields. Returns INVALID_ARGUMENT about the field, for example "documents[3].tokens.dim" if `path` is
// "documents[3]".
absl::Status CheckDocument(const v1::Document& document, const DocumentRules& rules, collection::FieldReader& reader,
                           FieldPath path);

// Checks how many documents a call has, and each of them as CheckDocument does.
absl::Status CheckDocuments(const v1::UpsertRequest& request, const DocumentRules& rules);

// Removes white space at both ends: a stored payload must begin with '{'.
std::string_view TrimmedPayload(std::string_view payload);

// Returns the path of a document in a call, "documents[3]".
std::string DocumentPath(int idx);

// Checks the values of a document's tokens as ToWrite does. Returns OK if it has no tokens. The document must have
// passed CheckDocument.
absl::Status CheckValues(const v1::Document& document, const DocumentRules& rules, FieldPath path);

// Converts a document that has passed CheckDocument, and whose text, if any, has been encoded. Returns INVALID_ARGUMENT
// if a value cannot be stored. If INT8 would distort tokens too much (QuantizationLoss), returns INVALID_ARGUMENT if
// the rules refuse such tokens, and otherwise counts them in `loss`. Frees the document's matrix.
absl::StatusOr<store::Write> ToWrite(v1::Document& document, const DocumentRules& rules, FieldPath path,
                                     collection::QuantizationLoss& loss);

// Return OK for 1 to `max_ids` valid ids of the collection's type.
absl::Status CheckIds(const v1::StringIds& ids, const DocumentRules& rules, int max_ids);
absl::Status CheckIds(const v1::IntIds& ids, const DocumentRules& rules, int max_ids);

// Return OK if the id is valid and of the collection's type. `field` is the id's path in the request, for errors.
absl::Status CheckReadId(const std::string& id, const DocumentRules& rules, const char* field);
absl::Status CheckReadId(int64_t id, const DocumentRules& rules, const char* field);

// Return OK if all ids, which have passed CheckIds, belong to the slots of this partition of the collection. Otherwise
// return INVALID_ARGUMENT naming the id, its slot and the slots of the partition.
absl::Status CheckSlots(const v1::StringIds& ids, const DocumentRules& rules);
absl::Status CheckSlots(const v1::IntIds& ids, const DocumentRules& rules);

}  // namespace maxsim::service
