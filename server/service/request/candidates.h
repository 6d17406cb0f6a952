// Validates the candidates of a request, and resolves ids to collection ordinals.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "collection/manifest.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/engine/job.h"
#include "server/service/call/limits.h"
#include "server/service/request/token_matrix.h"
#include "server/store/collection/collection.h"
#include "server/store/collection/matching_documents.h"

namespace maxsim::service {

// The candidates of one query, or of several queries that share the request's.
struct ResolvedCandidates {
  std::shared_ptr<const engine::CandidateSet> set;
  uint64_t num_documents = 0;
  uint64_t num_tokens = 0;
  bool is_inline = false;
  // Listed ids that the collection does not hold, in request order, each once. Only the vector of its id type is used.
  std::vector<std::string> missing_string_ids;
  std::vector<int64_t> missing_int_ids;
};

// Resolves the candidates of a request. A repeated id counts once, at its first position. Returns INVALID_ARGUMENT for
// an empty or too long list, an invalid id, ids of the wrong type, or an inline document with a wrong shape or value;
// NOT_FOUND for an unknown id if `fail_on_missing`. `path` is the field's path in the request: "candidates" or
// "queries[3].candidates".
//
// `matching` and `visible` (may be null) are documents of the same collection. Candidates that are not in `matching`
// are left out. Listed ids whose documents are not in `visible` count as unknown; `matching` must then be a part of
// `visible`. Inline documents are not affected.
absl::StatusOr<std::shared_ptr<const ResolvedCandidates>> ResolveCandidates(
    const v1::Candidates& candidates, const store::Collection& collection,
    const std::shared_ptr<const store::MatchingDocuments>& matching, const RequestLimits& limits, bool fail_on_missing,
    FieldPath path, const store::MatchingDocuments* visible = nullptr);

// Returns the candidates that are in `matching`, a set of documents of the same collection. Not for inline candidates.
std::shared_ptr<const engine::CandidateSet> NarrowCandidates(
    const engine::CandidateSet& candidates, const store::Collection& collection,
    const std::shared_ptr<const store::MatchingDocuments>& matching);

// Checks listed ids as far as possible without looking them up: that they are of the type `held`, that the list is
// neither empty nor too long, and that no string is too long. Returns OK for candidates that are not listed ids.
absl::Status CheckListedIds(const v1::Candidates& candidates, collection::IdType held, std::string_view collection,
                            const RequestLimits& limits, FieldPath path);

// Returns the NOT_FOUND error of MISSING_POLICY_FAIL: the collection does not hold `num_missing` of the `num_ids`
// listed ids. The message shows `first`, the first of the missing ids.
absl::Status UnknownIds(size_t num_missing, size_t num_ids, std::string_view first, FieldPath path);

}  // namespace maxsim::service
