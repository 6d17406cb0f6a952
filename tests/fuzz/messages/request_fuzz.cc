// Fuzzes a rerank request, from its bytes to the answer. If a request is accepted, the target scores it. Then it
// compares the scores, ids, positions and missing ids of the answer with an FP64 reference.
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/rank_order.h"
#include "server/grpc/messages/message_buffer.h"
#include "server/service/request/answer.h"
#include "server/service/request/translate.h"
#include "tests/fuzz/messages/request_expectation.h"
#include "tests/fuzz/messages/request_server.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

// The relative error bound holds only for normal FP32 numbers. A smaller product loses at most the smallest normal
// number, times the weights and scales that multiply the product. The rotation of a query of an INT8 collection has
// such errors, too, and the products multiply them by up to 127.
constexpr double kRelativeError = 1e-5;
constexpr double kLargestI8 = 127;

double Tolerance(const ExpectedQuery& expected, size_t idx) {
  const test::RandomDocuments& documents = *expected.documents;
  double weights = static_cast<double>(expected.query.tokens.num_tokens());
  for (const float weight : expected.query.weights) weights += std::fabs(weight);
  const double scale =
      documents.scales.empty() ? 1 : kLargestI8 * std::max(1.0f, documents.scales[expected.ordinals[idx]]);
  return kRelativeError * expected.scores[idx].magnitude + 1e-44 * (kRequestDim + 1) * weights * scale;
}

void CheckId(const ExpectedQuery& expected, const KnownCollection& known, const v1::QueryResult& result, int rank,
             size_t idx) {
  if (expected.documents != &known.documents) {
    return Require(!result.has_string_ids() && !result.has_int_ids(), "inline documents have no ids");
  }
  const int64_t document = expected.ordinals[idx];
  if (known.options.id_type == collection::IdType::kString) {
    return Require(result.string_ids().ids(rank) == test::CorpusId(known.options, document),
                   "the id is the document's");
  }
  Require(result.int_ids().ids(rank) == test::CorpusIntId(document), "the integer id is the document's");
}

// Checks that every query token is matched with the document token of the largest similarity.
void CheckAlignment(const ExpectedQuery& expected, size_t idx, const v1::Alignment& alignment) {
  const uint32_t ordinal = expected.ordinals[idx];
  const auto num_tokens = static_cast<int>(expected.query.tokens.num_tokens());
  Require(alignment.document_tokens_size() == num_tokens && alignment.similarities_size() == num_tokens,
          "a match a query token");
  for (int token = 0; token < num_tokens; ++token) {
    Require(alignment.document_tokens(token) < expected.documents->length(ordinal), "a match is in the document");
    Query alone = expected.query.view(1);
    alone.tokens = expected.query.tokens.row(token);
    alone.weights = nullptr;
    alone.num_tokens = 1;
    alone.ordinals = &ordinal;
    alone.num_candidates = 1;
    const ReferenceScore best = ReferenceScores(expected.documents->view(), alone)[0];
    Require(std::fabs(alignment.similarities(token) - best.score) <=
                kRelativeError * best.magnitude + Tolerance(expected, idx),
            "a match has the best similarity");
  }
}

bool WantsPayloads(const v1::RerankRequest& request) {
  return request.return_payloads() || !request.payload_fields().empty();
}

void CheckHits(const ExpectedQuery& expected, const KnownCollection& known, const v1::RerankRequest& request,
               const v1::QueryResult& result) {
  std::set<size_t> returned;
  for (int rank = 0; rank < result.scores_size(); ++rank) {
    const auto place = std::find(expected.positions.begin(), expected.positions.end(), result.positions(rank));
    Require(place != expected.positions.end(), "a position is a candidate's");
    const auto idx = static_cast<size_t>(place - expected.positions.begin());
    Require(returned.insert(idx).second, "no candidate is returned twice");
    // The division of a mean rounds once more. The tolerance covers this.
    const double num_tokens = request.normalize() ? static_cast<double>(expected.query.tokens.num_tokens()) : 1;
    Require(std::fabs(result.scores(rank) * num_tokens - expected.scores[idx].score) <= 2 * Tolerance(expected, idx),
            absl::StrCat("the score ", result.scores(rank), " is the reference's ", expected.scores[idx].score));
    CheckId(expected, known, result, rank, idx);
    if (WantsPayloads(request)) {
      const bool has = known.options.payloads && expected.documents == &known.documents;
      const auto& fields = request.payload_fields();
      const bool selected = fields.empty() || std::find(fields.begin(), fields.end(), "n") != fields.end();
      const std::string whole = selected ? absl::StrCat("{\"n\":", expected.ordinals[idx], "}") : "{}";
      Require(result.payloads(rank) == (has ? whole : ""), "the payload is what was asked for of the document's");
    }
    if (request.return_alignments()) CheckAlignment(expected, idx, result.alignments(rank));
    if (rank == 0) continue;
    // Results are ordered by sums. With `normalize`, two different sums may round to the same mean, so the order of
    // equal means is not checked.
    Require(!request.normalize() || result.scores(rank - 1) >= result.scores(rank), "means do not increase");
    if (request.normalize()) continue;
    Require(RanksBefore(Scored{result.scores(rank - 1), static_cast<uint32_t>(result.positions(rank - 1))},
                        Scored{result.scores(rank), static_cast<uint32_t>(result.positions(rank))}),
            "results are in rank order");
  }
  if (result.scores_size() == 0) return;
  const double last = result.scores(result.scores_size() - 1);
  const double num_tokens = request.normalize() ? static_cast<double>(expected.query.tokens.num_tokens()) : 1;
  for (size_t idx = 0; idx < expected.positions.size(); ++idx) {
    Require(returned.count(idx) == 1 || expected.scores[idx].score <= last * num_tokens + 2 * Tolerance(expected, idx),
            "nothing better is left out");
  }
}

void CheckResult(const v1::RerankRequest& request, const v1::Query& query, const KnownCollection& known,
                 const v1::QueryResult& result) {
  ExpectedQuery expected;
  Expect(request, query, known, expected);
  const size_t top_k = request.top_k() == 0 ? static_cast<size_t>(SmallLimits().default_top_k) : request.top_k();
  const auto num_hits = static_cast<int>(std::min(top_k, expected.ordinals.size()));
  Require(result.scores_size() == num_hits && result.positions_size() == num_hits, "k results, or one a candidate");
  Require(result.payloads_size() == (WantsPayloads(request) ? num_hits : 0), "payloads when they are asked for");
  Require(result.alignments_size() == (request.return_alignments() ? num_hits : 0), "alignments when asked for");
  const auto& strings = result.missing_string_ids().ids();
  const auto& ints = result.missing_int_ids().ids();
  Require(std::vector<std::string>(strings.begin(), strings.end()) == expected.missing_strings &&
              std::vector<int64_t>(ints.begin(), ints.end()) == expected.missing_ints,
          "the ids that the collection does not hold are missing, in order and once");
  Require(result.unavailable_documents() == 0, "no device is lost");
  CheckHits(expected, known, request, result);
}

// Returns whether the server may refuse the request with this code. `generation` is the collection's generation.
bool IsRefusal(const v1::RerankRequest& request, uint64_t generation, absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return true;
    case absl::StatusCode::kNotFound:
      return request.missing_policy() == v1::MISSING_POLICY_FAIL;
    case absl::StatusCode::kFailedPrecondition:
      return request.generation() != 0 && request.generation() != generation;
    default:
      return false;
  }
}

void FuzzRequest(std::string_view input) {
  RequestServer& server = RequestServer::Get();
  const grpc::Slice slice(input.data(), input.size());
  v1::RerankRequest request;
  if (!rpc::ParseMessage(grpc::ByteBuffer(&slice, 1), request).ok()) return;
  const auto known = server.collections().find(request.collection());
  if (known == server.collections().end()) return;
  const service::RequestLimits limits = SmallLimits();
  if (const absl::Status envelope = service::CheckEnvelope(request, limits); !envelope.ok()) {
    return Require(absl::IsInvalidArgument(envelope), "a wrong envelope is the request's fault");
  }
  absl::StatusOr<service::Translated> translated = service::Translate(request, known->second.collection, limits);
  if (!translated.ok()) {
    const auto generation = static_cast<uint64_t>(known->second.collection->manifest().generation);
    return Require(IsRefusal(request, generation, translated.status().code()),
                   absl::StrCat("a request is refused as wrong: ", translated.status().ToString()));
  }
  engine::JobResult scored;
  if (translated->job != nullptr) {
    engine::Job* const job = translated->job.get();
    std::vector<absl::StatusOr<engine::JobResult>> results = server.lane().Execute({&job, 1}, nullptr);
    Require(results.size() == 1 && results[0].ok(), "what was accepted is scored");
    scored = *std::move(results[0]);
  }
  const bool fits = service::CheckAnswerSize(translated->answer, scored, limits).ok();
  const v1::RerankResponse response = service::BuildResponse(translated->answer, scored);
  // The 512 bytes are for the fields of an answer that are not results: request id, generation and timings.
  Require(!fits || response.ByteSizeLong() <= limits.max_answer_bytes + 512, "an answer has the size it was given");
  Require(response.results_size() == request.queries_size(), "a result a query");
  Require(response.request_id() == request.request_id(), "the request's id comes back");
  for (int idx = 0; idx < request.queries_size(); ++idx) {
    CheckResult(request, request.queries(idx), known->second, response.results(idx));
  }
}

const Registration kRequestTarget("request", &FuzzRequest);

}  // namespace
}  // namespace maxsim::fuzz
