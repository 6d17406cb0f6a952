#include "server/service/explain.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "kernels/reference.h"
#include "nlohmann/json.hpp"
#include "server/service/call/status.h"
#include "server/service/request/translate.h"

namespace maxsim::service {
namespace {

constexpr absl::Duration kExplainRetryDelay = absl::Seconds(1);

// Adds the texts in the payload's list `tokens`, if the list has `size` elements.
void AddTokensOfPayload(std::string_view payload, int64_t size, v1::ExplainResponse& explanation) {
  const nlohmann::json parsed =
      nlohmann::json::parse(payload.begin(), payload.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("tokens")) return;
  const nlohmann::json& list = parsed["tokens"];
  if (!list.is_array() || static_cast<int64_t>(list.size()) != size) return;
  if (!std::all_of(list.begin(), list.end(), [](const nlohmann::json& entry) { return entry.is_string(); })) return;
  for (const nlohmann::json& entry : list) explanation.add_document_tokens(entry.get<std::string>());
}

double ExplainedScore(const v1::ExplainResponse& explanation, const std::vector<float>& weights) {
  double score = 0;
  const double* row = explanation.similarities().data();
  for (size_t i = 0; i < explanation.num_query_tokens(); ++i, row += explanation.num_document_tokens()) {
    const double best = *std::max_element(row, row + explanation.num_document_tokens());
    score += (weights.empty() ? 1.0 : static_cast<double>(weights[i])) * best;
  }
  return score;
}

// Computes the similarities of a query's and a stored document's tokens.
absl::StatusOr<v1::ExplainResponse> ExplainDocument(const engine::JobQuery& job_query,
                                                    const store::Collection& collection, uint64_t ordinal) {
  const int64_t num_tokens = collection.num_document_tokens(ordinal);
  if (num_tokens * job_query.num_tokens > kMaxExplainedPairs) {
    return InvalidField(
        "queries[0].tokens",
        absl::StrCat("asks for ", num_tokens * job_query.num_tokens,
                     " token pairs (query tokens x document tokens); must be at most ", kMaxExplainedPairs),
        {kMaxExplainedPairs, num_tokens * job_query.num_tokens});
  }
  absl::StatusOr<store::Collection::StoredDocument> stored = collection.ReadDocument(ordinal);
  if (!stored.ok()) return stored.status();
  // Make a candidate set with only this document.
  const std::array<int64_t, 2> offsets = {0, num_tokens};
  DocumentsView document;
  document.type = collection.storage();
  document.dim = collection.dim();
  document.num_documents = 1;
  document.tokens = stored->rows.data();
  document.offsets = offsets.data();
  document.scales = collection.storage() == ScalarType::kI8 ? &stored->scale : nullptr;
  document.rotation_seed = collection.manifest().rotation_seed;
  document.codebook = stored->codebook;
  document.document_tokens = num_tokens;
  Query query;
  query.tokens = job_query.tokens.data();
  query.num_tokens = job_query.num_tokens;
  v1::ExplainResponse explanation;
  explanation.set_generation(static_cast<uint64_t>(collection.manifest().generation));
  explanation.set_num_query_tokens(static_cast<uint32_t>(job_query.num_tokens));
  explanation.set_num_document_tokens(static_cast<uint32_t>(num_tokens));
  const std::vector<double> similarities = ReferenceSimilarities(document, query, 0);
  explanation.mutable_similarities()->Add(similarities.begin(), similarities.end());
  explanation.set_score(ExplainedScore(explanation, job_query.weights));
  AddTokensOfPayload(collection.payload(ordinal), num_tokens, explanation);
  return explanation;
}

}  // namespace

ConcurrencyLimit ExplanationLimit() { return {kMaxExplanations, "explanations", kExplainRetryDelay}; }

absl::Status CheckExplained(const v1::RerankRequest& request) {
  if (request.queries_size() != 1) {
    return InvalidField("queries", absl::StrCat("has ", request.queries_size(), " queries; must have exactly one"));
  }
  const v1::Candidates& candidates = CandidatesOf(request, request.queries(0));
  if (candidates.string_ids().ids_size() + candidates.int_ids().ids_size() == 1) return absl::OkStatus();
  return InvalidField("candidates", "must be one id");
}

absl::Status NoSuchDocument(const v1::RerankRequest& request, std::string_view condition) {
  return FieldError(absl::StatusCode::kNotFound, client::kReasonUnknownIds, "candidates",
                    Cat("collection ", request.collection(), " has no document of that id", condition));
}

absl::StatusOr<v1::ExplainResponse> ComputeExplanation(const v1::RerankRequest& request,
                                                       const std::shared_ptr<const store::Collection>& collection,
                                                       const RequestLimits& limits, absl::Time deadline,
                                                       ConcurrencyLimit* limit) {
  v1::RerankRequest strict = request;
  strict.set_missing_policy(v1::MISSING_POLICY_FAIL);
  // Drop group_by, because the document's score does not depend on its group.
  strict.clear_group_by();
  const absl::StatusOr<Translated> translated = Translate(strict, collection, limits, [deadline] {
    return MonotonicNow() < deadline
               ? absl::OkStatus()
               : absl::DeadlineExceededError("the deadline passed while the filter was evaluated");
  });
  if (absl::IsNotFound(translated.status())) {
    return NoSuchDocument(request, "");
  }
  if (!translated.ok()) return translated.status();
  if (translated->job == nullptr) {
    return NoSuchDocument(request, " that matches the filter");
  }
  const absl::StatusOr<std::shared_ptr<const void>> place = limit->Take();
  if (!place.ok()) return place.status();
  if (MonotonicNow() >= deadline) return absl::DeadlineExceededError("the deadline passed before the start");
  const engine::JobQuery& query = translated->job->queries.front();
  return ExplainDocument(query, *collection, query.candidates->ordinals.front());
}

}  // namespace maxsim::service
