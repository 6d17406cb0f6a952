// Checks token matrices of requests, and converts them for scoring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/scalar_type.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// Rules that a matrix must satisfy.
struct TokenMatrixRules {
  ScalarType storage = ScalarType::kF16;  // values are rounded to this type; not kI8
  int32_t dim = 0;
  bool dim_is_of_collection = true;  // else `dim` is that of the first query's tokens; used in messages only
  int64_t max_tokens = 0;
  std::string_view limit_name;  // of max_tokens: "limits.max_query_tokens"
};

// Returns a field's path in the request, such as "queries[3].tokens". It is called only when an error message is made.
using FieldPath = absl::FunctionRef<std::string()>;

// Checks everything but the values: dtype, rows, columns, size of data.
absl::Status CheckShape(const v1::TokenMatrix& matrix, const TokenMatrixRules& rules, FieldPath path);

// Appends the matrix's rows in the storage type. Its shape must have been checked. Returns INVALID_ARGUMENT naming row
// and column if a value, as sent or after rounding, is not finite or has a magnitude above kMaxAbsValue.
absl::Status AppendRows(const v1::TokenMatrix& matrix, const TokenMatrixRules& rules, FieldPath path,
                        std::vector<std::byte>& rows);

}  // namespace maxsim::service
