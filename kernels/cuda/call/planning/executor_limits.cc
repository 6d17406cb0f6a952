#include "kernels/cuda/call/planning/executor_limits.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/call/planning/slice_capacity.h"
#include "kernels/cuda/runtime/cuda_error.h"
#include "kernels/limits.h"

namespace maxsim::cuda {
namespace {

absl::Status Beyond(absl::string_view what, int64_t value, absl::string_view limit_name, int64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " is ", value, "; this executor was made for ", limit_name, " = ", limit));
}

absl::Status CheckDim(const ExecutorOptions& options, const Documents& documents) {
  if (documents.dim() <= options.max_dim) return absl::OkStatus();
  return Beyond("dimension", documents.dim(), "max_dim", options.max_dim);
}

}  // namespace

absl::Status CheckOptions(const ExecutorOptions& options) {
  if (options.max_queries < 1 || options.max_query_tokens < 1 || options.max_candidates < 1 ||
      options.max_candidates > kMaxShardDocuments || options.max_dim < kMinDim || options.max_dim > kMaxDim ||
      options.max_staged_bytes < 0 || options.max_staged_documents < 0) {
    return absl::InvalidArgumentError("executor options: a size is outside its range");
  }
  return absl::OkStatus();
}

absl::Status CheckTopKLimits(const ExecutorOptions& options, const Documents& documents,
                             absl::Span<const Query> queries) {
  if (static_cast<int64_t>(queries.size()) > options.max_queries) {
    return Beyond("number of queries", static_cast<int64_t>(queries.size()), "max_queries", options.max_queries);
  }
  MAXSIM_RETURN_IF_ERROR(CheckDim(options, documents));
  int64_t tokens = 0, candidates = 0;
  for (const Query& query : queries) {
    tokens += query.num_tokens;
    candidates += NumCandidates(query, documents.num_documents());
  }
  if (tokens > options.max_query_tokens) {
    return Beyond("number of query tokens", tokens, "max_query_tokens", options.max_query_tokens);
  }
  if (candidates > options.max_candidates) {
    return Beyond("number of candidates", candidates, "max_candidates", options.max_candidates);
  }
  return absl::OkStatus();
}

absl::Status CheckAlignLimits(const ExecutorOptions& options, const Documents& documents, const Query& query) {
  MAXSIM_RETURN_IF_ERROR(CheckDim(options, documents));
  if (query.num_tokens > options.max_query_tokens) {
    return Beyond("number of query tokens", query.num_tokens, "max_query_tokens", options.max_query_tokens);
  }
  return absl::OkStatus();
}

absl::Status CheckStageLimits(const ExecutorOptions& options, const CudaDocuments::Shape& shape) {
  if (shape.num_documents > options.max_staged_documents) {
    return Beyond("number of inline documents", shape.num_documents, "max_staged_documents",
                  options.max_staged_documents);
  }
  if (shape.token_bytes() > static_cast<size_t>(options.max_staged_bytes)) {
    return Beyond("size of inline documents in bytes (rows padded to a multiple of 16)",
                  static_cast<int64_t>(shape.token_bytes()), "max_staged_bytes", options.max_staged_bytes);
  }
  return absl::OkStatus();
}

}  // namespace maxsim::cuda
