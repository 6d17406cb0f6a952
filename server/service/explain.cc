#include "server/service/explain.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "client/status.h"
#include "kernels/reference.h"
#include "nlohmann/json.hpp"
#include "server/service/call/status.h"
#include "server/service/request/translate.h"

namespace maxsim::service {
namespace {

constexpr absl::Duration kExplainRetryDelay = absl::Seconds(1);

absl::Status TooManyRunning(int limit) {
  absl::Status status =
      absl::ResourceExhaustedError(absl::StrCat(limit, " explanations are being computed, as many as may be"));
  client::SetRetryAfter(kExplainRetryDelay, status);
  return status;
}

// The texts of a payload's list `tokens`, if there are `size`; else none.
std::vector<std::string> TokensOfPayload(std::string_view payload, int64_t size) {
  std::vector<std::string> tokens;
  const nlohmann::json parsed =
      nlohmann::json::parse(payload.begin(), payload.end(), nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object() || !parsed.contains("tokens")) return tokens;
  const nlohmann::json& list = parsed["tokens"];
  if (!list.is_array() || static_cast<int64_t>(list.size()) != size) return tokens;
  for (const nlohmann::json& entry : list) {
    if (!entry.is_string()) return {};
    tokens.push_back(entry.get<std::string>());
  }
  return tokens;
}

double ExplainedScore(const Explanation& explanation, const std::vector<float>& weights) {
  double score = 0;
  const double* row = explanation.similarities.data();
  for (int64_t i = 0; i < explanation.num_query_tokens; ++i, row += explanation.num_document_tokens) {
    const double best = *std::max_element(row, row + explanation.num_document_tokens);
    score += (weights.empty() ? 1.0 : static_cast<double>(weights[static_cast<size_t>(i)])) * best;
  }
  return score;
}

// Computes the similarities of a translated query with a document that the collection holds.
absl::StatusOr<Explanation> ExplainDocument(const engine::JobQuery& job_query, const store::Collection& collection,
                                            uint64_t ordinal) {
  const int64_t num_tokens = collection.num_document_tokens(ordinal);
  if (num_tokens * job_query.num_tokens > kMaxExplainedPairs) {
    return InvalidField("queries[0].tokens",
                        absl::StrCat("asks for ", num_tokens * job_query.num_tokens,
                                     " token pairs (query tokens x document tokens), and at most ", kMaxExplainedPairs,
                                     " are explained"),
                        {kMaxExplainedPairs, num_tokens * job_query.num_tokens});
  }
  absl::StatusOr<store::Collection::StoredDocument> stored = collection.ReadDocument(ordinal);
  if (!stored.ok()) return stored.status();
  // The document alone, as a set of one.
  const std::array<int64_t, 2> offsets = {0, num_tokens};
  DocumentsView document;
  document.type = collection.storage();
  document.dim = collection.dim();
  document.num_documents = 1;
  document.tokens = stored->rows.data();
  document.offsets = offsets.data();
  document.scales = collection.storage() == ScalarType::kI8 ? &stored->scale : nullptr;
  document.rotation_seed = collection.manifest().rotation_seed;
  document.document_tokens = num_tokens;
  Query query;
  query.tokens = job_query.tokens.data();
  query.num_tokens = job_query.num_tokens;
  Explanation explanation;
  explanation.generation = static_cast<uint64_t>(collection.manifest().generation);
  explanation.num_query_tokens = job_query.num_tokens;
  explanation.num_document_tokens = num_tokens;
  explanation.similarities = ReferenceSimilarities(document, query, 0);
  explanation.score = ExplainedScore(explanation, job_query.weights);
  explanation.document_tokens = TokensOfPayload(collection.payload(ordinal), num_tokens);
  return explanation;
}

}  // namespace

v1::ExplainResponse ToProto(const Explanation& explanation) {
  v1::ExplainResponse response;
  response.set_generation(explanation.generation);
  response.set_score(explanation.score);
  response.set_num_query_tokens(static_cast<uint32_t>(explanation.num_query_tokens));
  response.set_num_document_tokens(static_cast<uint32_t>(explanation.num_document_tokens));
  response.mutable_similarities()->Add(explanation.similarities.begin(), explanation.similarities.end());
  for (const std::string& token : explanation.query_tokens) response.add_query_tokens(token);
  response.set_query_truncated(explanation.query_truncated);
  for (const std::string& token : explanation.document_tokens) response.add_document_tokens(token);
  return response;
}

Explanation FromProto(const v1::ExplainResponse& response) {
  return {.generation = response.generation(),
          .score = response.score(),
          .num_query_tokens = response.num_query_tokens(),
          .num_document_tokens = response.num_document_tokens(),
          .similarities = {response.similarities().begin(), response.similarities().end()},
          .query_tokens = {response.query_tokens().begin(), response.query_tokens().end()},
          .query_truncated = response.query_truncated(),
          .document_tokens = {response.document_tokens().begin(), response.document_tokens().end()}};
}

absl::Status CheckExplained(const v1::RerankRequest& request) {
  if (request.queries_size() != 1) {
    return InvalidField("queries", absl::StrCat("has ", request.queries_size(), " queries, and one is explained"));
  }
  const v1::Candidates& candidates = CandidatesOf(request, request.queries(0));
  if (candidates.string_ids().ids_size() + candidates.int_ids().ids_size() == 1) return absl::OkStatus();
  return InvalidField("candidates", "must be one id");
}

absl::StatusOr<Explanation> ComputeExplanation(const v1::RerankRequest& request,
                                               const std::shared_ptr<const store::Collection>& collection,
                                               const RequestLimits& limits, absl::Time deadline,
                                               ConcurrencyLimit* places) {
  v1::RerankRequest strict = request;
  strict.set_missing_policy(v1::MISSING_POLICY_FAIL);
  const absl::StatusOr<Translated> translated = Translate(strict, collection, limits);
  if (absl::IsNotFound(translated.status())) {
    return absl::NotFoundError(absl::StrCat("collection ", request.collection(), " has no document of that id"));
  }
  if (!translated.ok()) return translated.status();
  const std::shared_ptr<const void> place = places->TryTake();
  if (place == nullptr) return TooManyRunning(places->limit());
  if (MonotonicNow() >= deadline) return absl::DeadlineExceededError("the deadline passed before the start");
  const engine::JobQuery& query = translated->job->queries.front();
  return ExplainDocument(query, *collection, query.candidates->ordinals.front());
}

}  // namespace maxsim::service
