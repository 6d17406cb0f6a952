#include "kernels/validate.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/candidate_mask.h"

namespace maxsim {
namespace {

absl::Status OutOfRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; must be ", low, " to ", high));
}

std::string QueryField(int64_t query_idx, absl::string_view field) {
  return absl::StrCat("queries[", query_idx, "].", field);
}

absl::Status ValidateQueryTokens(const Query& query, int64_t query_idx) {
  if (query.num_tokens < 1 || query.num_tokens > kMaxQueryTokens) {
    return OutOfRange(QueryField(query_idx, "num_tokens"), query.num_tokens, 1, kMaxQueryTokens);
  }
  if (query.tokens == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(QueryField(query_idx, "tokens"), " is null"));
  }
  return absl::OkStatus();
}

absl::Status ValidateOrdinals(absl::Span<const uint32_t> ordinals, int64_t num_documents, absl::string_view field) {
  uint32_t largest = 0;
  for (const uint32_t ordinal : ordinals) largest = std::max(largest, ordinal);
  if (largest < num_documents) return absl::OkStatus();
  for (size_t idx = 0; idx < ordinals.size(); ++idx) {
    if (ordinals[idx] >= num_documents) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, "[", idx, "] is ", ordinals[idx], "; must be below ", num_documents, " documents"));
    }
  }
  return absl::OkStatus();
}

// Checks the query without the ordinals of its list.
absl::Status ValidateQueryExceptOrdinals(const Query& query, int64_t query_idx) {
  if (absl::Status status = ValidateQueryTokens(query, query_idx); !status.ok()) return status;
  if (query.top_k < 1 || query.top_k > kMaxTopK) {
    return OutOfRange(QueryField(query_idx, "top_k"), query.top_k, 1, kMaxTopK);
  }
  if (query.weights != nullptr) {
    for (int32_t token = 0; token < query.num_tokens; ++token) {
      // The condition is written so that NaN fails it.
      if (!(std::fabs(query.weights[token]) <= kMaxAbsWeight)) {
        return absl::InvalidArgumentError(absl::StrCat(QueryField(query_idx, "weights"), "[", token, "] is ",
                                                       query.weights[token], "; must be finite and within +-",
                                                       kMaxAbsWeight));
      }
    }
  }
  if (query.ordinals == nullptr) return absl::OkStatus();
  // Candidates may repeat, so their number may exceed num_documents. Their positions must fit 32 bits.
  if (query.num_candidates < 0 || query.num_candidates > kMaxShardDocuments) {
    return OutOfRange(QueryField(query_idx, "num_candidates"), query.num_candidates, 0, kMaxShardDocuments);
  }
  return absl::OkStatus();
}

// Checks the type and the width of document rows. `field` names the struct that has these members.
absl::Status ValidateRows(absl::string_view field, ScalarType type, int32_t dim) {
  switch (type) {
    case ScalarType::kF32:
    case ScalarType::kF16:
    case ScalarType::kBF16:
    case ScalarType::kI8:
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      break;
    default:
      return absl::InvalidArgumentError(absl::StrCat(field, ".type is ", std::string(Name(type)), " (",
                                                     static_cast<int>(type),
                                                     "); must be f32, f16, bf16, i8 or residual codes"));
  }
  if (dim < kMinDim || dim > kMaxDim) return OutOfRange(absl::StrCat(field, ".dim"), dim, kMinDim, kMaxDim);
  if (IsResidual(type) && !TakesResidualDim(type, dim)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".dim is ", dim, "; with ", std::string(Name(type)),
                                                   " the columns must fill whole bytes and be at most ",
                                                   kMaxResidualDim));
  }
  return absl::OkStatus();
}

absl::Status ValidateCodebook(const DocumentsView& documents) {
  const ResidualCodebook& codebook = documents.codebook;
  if (!IsResidual(documents.type)) {
    if (codebook == ResidualCodebook{}) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("documents.codebook is set for ", std::string(Name(documents.type)), "; residual codes have one"));
  }
  if (codebook.num_centroids < 1 || codebook.num_centroids > kMaxCentroids) {
    return OutOfRange("documents.codebook.num_centroids", codebook.num_centroids, 1, kMaxCentroids);
  }
  if (codebook.centroids == nullptr || codebook.bucket_weights == nullptr) {
    return absl::InvalidArgumentError("documents.codebook has no centroids or no bucket weights");
  }
  return absl::OkStatus();
}

// Checks that `more` can be added to `present` without exceeding the limit.
absl::Status ValidateRoom(absl::string_view what, int64_t present, int64_t more, int64_t limit) {
  if (more <= limit - present) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("there is no room for ", more, " ", what, " after ", present, ": max_", what, " is ", limit));
}

}  // namespace

absl::Status ValidateAppendableShape(const AppendableShape& shape) {
  if (absl::Status status = ValidateRows("shape", shape.type, shape.dim); !status.ok()) return status;
  if (IsResidual(shape.type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape.type is ", std::string(Name(shape.type)), "; nothing can be appended to residual codes"));
  }
  if (shape.max_documents < 1 || shape.max_documents > kMaxShardDocuments) {
    return OutOfRange("shape.max_documents", shape.max_documents, 1, kMaxShardDocuments);
  }
  const int64_t most_tokens = shape.max_documents * kMaxDocumentTokens;
  if (shape.max_tokens < 1 || shape.max_tokens > most_tokens) {
    return OutOfRange("shape.max_tokens", shape.max_tokens, 1, most_tokens);
  }
  return absl::OkStatus();
}

absl::Status ValidateAppend(const AppendableShape& shape, int64_t num_documents, int64_t num_tokens,
                            const DocumentsView& documents) {
  if (absl::Status status = ValidateDocuments(documents); !status.ok()) return status;
  if (documents.type != shape.type) {
    return absl::InvalidArgumentError(absl::StrCat("documents.type is ", std::string(Name(documents.type)),
                                                   "; must be ", std::string(Name(shape.type)),
                                                   ", as that of the documents they are appended to"));
  }
  if (documents.dim != shape.dim) {
    return absl::InvalidArgumentError(absl::StrCat("documents.dim is ", documents.dim, "; must be ", shape.dim,
                                                   ", as that of the documents they are appended to"));
  }
  if (shape.type == ScalarType::kI8 && documents.rotation_seed != shape.rotation_seed) {
    return absl::InvalidArgumentError(absl::StrCat("documents.rotation_seed is ", documents.rotation_seed, "; must be ",
                                                   shape.rotation_seed,
                                                   ", as that of the documents they are appended to"));
  }
  absl::Status status = ValidateRoom("documents", num_documents, documents.num_documents, shape.max_documents);
  if (!status.ok()) return status;
  return ValidateRoom("tokens", num_tokens, documents.num_tokens(), shape.max_tokens);
}

absl::Status ValidateReadRows(int64_t num_tokens, int64_t first_token, int64_t num_rows, const void* rows) {
  if (first_token < 0 || first_token > num_tokens) return OutOfRange("first_token", first_token, 0, num_tokens);
  if (num_rows < 0 || num_rows > num_tokens - first_token) {
    return OutOfRange("num_tokens", num_rows, 0, num_tokens - first_token);
  }
  return rows == nullptr && num_rows > 0 ? absl::InvalidArgumentError("rows is null") : absl::OkStatus();
}

absl::Status ValidateDocuments(const DocumentsView& documents) {
  if (absl::Status status = ValidateRows("documents", documents.type, documents.dim); !status.ok()) return status;
  if (documents.num_documents < 0 || documents.num_documents > kMaxShardDocuments) {
    return OutOfRange("documents.num_documents", documents.num_documents, 0, kMaxShardDocuments);
  }
  if (documents.num_documents == 0) return absl::OkStatus();
  if (documents.offsets == nullptr) return absl::InvalidArgumentError("documents.offsets is null");
  if (documents.tokens == nullptr) return absl::InvalidArgumentError("documents.tokens is null");
  if (reinterpret_cast<uintptr_t>(documents.tokens) % 2 != 0) {
    return absl::InvalidArgumentError("documents.tokens is at an odd address; must be aligned to 2 bytes");
  }
  if ((documents.scales != nullptr) != (documents.type == ScalarType::kI8)) {
    return absl::InvalidArgumentError(absl::StrCat("documents.scales is ", documents.scales == nullptr ? "null" : "set",
                                                   " for ", std::string(Name(documents.type)),
                                                   "; i8 alone has scales"));
  }
  if (absl::Status status = ValidateCodebook(documents); !status.ok()) return status;
  if (documents.offsets[0] != 0) {
    return absl::InvalidArgumentError(absl::StrCat("documents.offsets[0] is ", documents.offsets[0], "; must be 0"));
  }
  for (int64_t idx = 0; idx < documents.num_documents; ++idx) {
    const int64_t begin = documents.offsets[idx];
    const int64_t end = documents.offsets[idx + 1];
    // Compares the offsets before it subtracts them: offsets from a file may be any numbers, and the difference could
    // overflow.
    if (end <= begin || end - begin > kMaxDocumentTokens) {
      return absl::InvalidArgumentError(absl::StrCat("documents.offsets[", idx + 1, "] is ", end, " after ", begin,
                                                     "; a document has 1 to ", kMaxDocumentTokens, " tokens"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateStaged(const DocumentsView& documents) {
  if (IsResidual(documents.type)) {
    return absl::InvalidArgumentError(
        absl::StrCat("documents.type is ", std::string(Name(documents.type)), "; residual codes cannot be staged"));
  }
  return ValidateDocuments(documents);
}

absl::Status ValidateQuery(const Query& query, int64_t num_documents, int64_t query_idx) {
  if (absl::Status status = ValidateQueryExceptOrdinals(query, query_idx); !status.ok()) return status;
  if (query.ordinals == nullptr) return absl::OkStatus();
  return ValidateOrdinals({query.ordinals, static_cast<size_t>(query.num_candidates)}, num_documents,
                          QueryField(query_idx, "ordinals"));
}

absl::Status ValidateTopKCall(absl::Span<const Query> queries, size_t num_results, int64_t num_documents,
                              CandidateForm form) {
  if (num_results != queries.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("results has ", num_results, " elements for ", queries.size(), " queries"));
  }
  const bool masked = form == CandidateForm::kSharedMask && SharedMask(queries, num_documents) != nullptr;
  for (size_t idx = 0; idx < queries.size(); ++idx) {
    const auto query_idx = static_cast<int64_t>(idx);
    absl::Status status = masked ? ValidateQueryExceptOrdinals(queries[idx], query_idx)
                                 : ValidateQuery(queries[idx], num_documents, query_idx);
    if (!status.ok()) return status;
  }
  return masked ? ValidateMask(queries.front(), num_documents, 0) : absl::OkStatus();
}

absl::Status ValidateAlignCall(const Query& query, absl::Span<const uint32_t> ordinals, size_t num_matches,
                               int64_t num_documents) {
  if (absl::Status status = ValidateQueryTokens(query, 0); !status.ok()) return status;
  const size_t expected = ordinals.size() * static_cast<size_t>(query.num_tokens);
  if (num_matches != expected) {
    return absl::InvalidArgumentError(absl::StrCat("matches has ", num_matches, " elements; must have ", expected, ": ",
                                                   ordinals.size(), " documents x ", query.num_tokens, " tokens"));
  }
  return ValidateOrdinals(ordinals, num_documents, "ordinals");
}

}  // namespace maxsim
