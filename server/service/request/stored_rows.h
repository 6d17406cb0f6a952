// Turns the token matrix of a document into rows as a collection stores them. Inline documents and written documents
// share this code, so that a document gets the same bits, and the same score, in both cases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "collection/quantization_loss.h"
#include "kernels/scalar_type.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/service/call/limits.h"
#include "server/service/request/token_matrix.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// Rules for the documents of a collection, and the form in which it stores them.
struct StoredForm {
  TokenMatrixRules rules;  // for the matrix as sent; its values are first converted to QueryType(storage)
  ScalarType storage = ScalarType::kF16;
  uint64_t rotation_seed = 0;  // i8
};

StoredForm StoredFormOf(const store::Collection& collection, const RequestLimits& limits);
StoredForm StoredFormOf(ScalarType storage, int32_t dim, uint64_t rotation_seed, const RequestLimits& limits);

// Appends the document's rows in the storage type. For i8 also sets `scale` and, unless it is null, `loss`; for other
// types leaves both unchanged. The shape must have been checked by form.rules. Returns INVALID_ARGUMENT if a value
// cannot be stored.
absl::Status AppendStoredRows(const v1::TokenMatrix& document, const StoredForm& form, FieldPath path,
                              std::vector<std::byte>& rows, float& scale, collection::QuantizationLoss* loss = nullptr);

}  // namespace maxsim::service
