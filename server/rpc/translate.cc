#include "server/rpc/translate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/limits.h"
#include "server/rpc/token_matrix.h"

namespace maxsim::rpc {
namespace {

absl::Status Invalid(const std::string& path, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
}

uint64_t SaturatingMultiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}

uint64_t SaturatingAdd(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}

std::string QueryPath(int idx, const char* field) { return absl::StrCat("queries[", idx, "].", field); }

absl::Status CheckWeights(const v1::Query& query, int idx) {
  if (query.weights().empty()) return absl::OkStatus();
  if (query.weights_size() != static_cast<int64_t>(query.tokens().num_tokens())) {
    return Invalid(QueryPath(idx, "weights"),
                   absl::StrCat("has ", query.weights_size(), " weights for ", query.tokens().num_tokens(), " tokens"));
  }
  for (int i = 0; i < query.weights_size(); ++i) {
    const float weight = query.weights(i);
    if (std::isfinite(weight) && std::abs(weight) <= kMaxAbsWeight) continue;
    return Invalid(absl::StrCat(QueryPath(idx, "weights"), "[", i, "]"),
                   absl::StrCat("is ", weight, "; weights must be finite and their magnitude at most ", kMaxAbsWeight));
  }
  return absl::OkStatus();
}

// Resolves each query's candidates; queries without their own share one resolution of the request's.
absl::Status ResolveAll(const v1::RerankRequest& request, const store::Collection& collection,
                        const RequestLimits& limits, PendingAnswer& answer) {
  const bool fail_on_missing = request.missing_policy() == v1::MISSING_POLICY_FAIL;
  std::shared_ptr<const ResolvedCandidates> shared;
  for (int i = 0; i < request.queries_size(); ++i) {
    const v1::Query& query = request.queries(i);
    PendingAnswer::Query& pending = answer.queries[static_cast<size_t>(i)];
    if (query.has_candidates()) {
      auto own = ResolveCandidates(query.candidates(), collection, limits, fail_on_missing,
                                   [i] { return QueryPath(i, "candidates"); });
      if (!own.ok()) return own.status();
      pending.candidates = *std::move(own);
      continue;
    }
    if (shared == nullptr) {
      if (!request.has_candidates()) {
        return Invalid("candidates", absl::StrCat("is not set, and queries[", i, "] names none itself"));
      }
      auto resolved = ResolveCandidates(request.candidates(), collection, limits, fail_on_missing,
                                        [] { return std::string("candidates"); });
      if (!resolved.ok()) return resolved.status();
      shared = *std::move(resolved);
    }
    pending.candidates = shared;
  }
  return absl::OkStatus();
}

// The request's price, as engine::ComputeWork would have it; and, where alignments are wanted, their number.
absl::StatusOr<uint64_t> CheckWork(const v1::RerankRequest& request, int32_t top_k, const RequestLimits& limits,
                                   const PendingAnswer& answer) {
  uint64_t work = 0;
  uint64_t matches = 0;
  for (size_t i = 0; i < answer.queries.size(); ++i) {
    const uint64_t tokens = request.queries(static_cast<int>(i)).tokens().num_tokens();
    const ResolvedCandidates& candidates = *answer.queries[i].candidates;
    work = SaturatingAdd(work, SaturatingMultiply(tokens, candidates.num_tokens));
    matches += tokens * std::min<uint64_t>(static_cast<uint64_t>(top_k), candidates.num_documents);
  }
  if (work > limits.max_request_work) {
    return Invalid("queries",
                   absl::StrCat("ask for ", work, " token pairs (query tokens x candidate tokens), and at most ",
                                limits.max_request_work, " (limits.max_request_work) are accepted"));
  }
  if (request.return_alignments() && matches > static_cast<uint64_t>(limits.max_alignments)) {
    return Invalid("return_alignments", absl::StrCat("asks for ", matches,
                                                     " token matches (top_k x query tokens), and at "
                                                     "most ",
                                                     limits.max_alignments, " (limits.max_alignments) are accepted"));
  }
  return work;
}

engine::Priority PriorityOf(v1::Priority priority) {
  switch (priority) {
    case v1::PRIORITY_LOW:
      return engine::Priority::kLow;
    case v1::PRIORITY_HIGH:
      return engine::Priority::kHigh;
    default:
      return engine::Priority::kNormal;
  }
}

// Converts the queries that have something to score, and remembers which they are.
absl::Status BuildJobQueries(const v1::RerankRequest& request, const TokenMatrixRules& rules, int32_t top_k,
                             PendingAnswer& answer, engine::Job& job) {
  job.queries.reserve(static_cast<size_t>(request.queries_size()));
  for (int i = 0; i < request.queries_size(); ++i) {
    const v1::Query& query = request.queries(i);
    PendingAnswer::Query& pending = answer.queries[static_cast<size_t>(i)];
    engine::JobQuery converted;
    absl::Status status = AppendRows(
        query.tokens(), rules, [i] { return QueryPath(i, "tokens"); }, converted.tokens);
    if (!status.ok()) return status;
    if (pending.candidates->num_documents == 0) continue;
    converted.weights.assign(query.weights().begin(), query.weights().end());
    converted.num_tokens = static_cast<int32_t>(query.tokens().num_tokens());
    converted.top_k = top_k;
    converted.want_alignments = request.return_alignments();
    converted.candidates = pending.candidates->set;
    pending.job_query = static_cast<int>(job.queries.size());
    job.queries.push_back(std::move(converted));
  }
  return absl::OkStatus();
}

void FillIds(const store::Collection& collection, const engine::JobQueryResult& scored, v1::QueryResult& result) {
  if (collection.manifest().id_type == shard::IdType::kString) {
    auto* ids = result.mutable_string_ids()->mutable_ids();
    ids->Reserve(static_cast<int>(scored.hits.size()));
    for (const engine::Hit& hit : scored.hits) {
      const std::string_view id = collection.string_id(hit.ordinal);
      ids->Add()->assign(id.data(), id.size());
    }
  } else {
    auto* ids = result.mutable_int_ids()->mutable_ids();
    ids->Reserve(static_cast<int>(scored.hits.size()));
    for (const engine::Hit& hit : scored.hits) ids->Add(collection.int_id(hit.ordinal));
  }
}

void FillAlignments(const engine::JobQueryResult& scored, v1::QueryResult& result) {
  if (scored.hits.empty()) return;
  const size_t num_tokens = scored.matches.size() / scored.hits.size();
  for (size_t h = 0; h < scored.hits.size(); ++h) {
    v1::Alignment& alignment = *result.add_alignments();
    alignment.mutable_document_tokens()->Reserve(static_cast<int>(num_tokens));
    alignment.mutable_similarities()->Reserve(static_cast<int>(num_tokens));
    for (size_t t = 0; t < num_tokens; ++t) {
      const TokenMatch& match = scored.matches[h * num_tokens + t];
      alignment.add_document_tokens(static_cast<uint32_t>(match.document_token));
      alignment.add_similarities(match.similarity);
    }
  }
}

void FillResult(const PendingAnswer& answer, const ResolvedCandidates& candidates, const engine::JobQueryResult& scored,
                v1::QueryResult& result) {
  const store::Collection& collection = *answer.collection;
  if (!candidates.is_inline) FillIds(collection, scored, result);
  const int count = static_cast<int>(scored.hits.size());
  result.mutable_scores()->Reserve(count);
  result.mutable_positions()->Reserve(count);
  for (const engine::Hit& hit : scored.hits) {
    result.add_scores(hit.score);
    result.add_positions(hit.position);
    if (!answer.return_payloads) continue;
    const std::string_view payload = candidates.is_inline ? std::string_view() : collection.payload(hit.ordinal);
    result.add_payloads(payload.data(), payload.size());
  }
  if (answer.return_alignments) FillAlignments(scored, result);
  for (const std::string& id : candidates.missing_string_ids) *result.mutable_missing_string_ids()->add_ids() = id;
  for (const int64_t id : candidates.missing_int_ids) result.mutable_missing_int_ids()->add_ids(id);
  result.set_unavailable_documents(scored.num_unavailable);
}

}  // namespace

absl::Status CheckEnvelope(const v1::RerankRequest& request, const RequestLimits& limits) {
  if (request.request_id().size() > static_cast<size_t>(kMaxRequestIdBytes)) {
    return Invalid("request_id", absl::StrCat("has ", request.request_id().size(), " bytes, and at most ",
                                              kMaxRequestIdBytes, " are accepted"));
  }
  if (request.collection().empty()) return Invalid("collection", "is empty");
  if (request.queries_size() < 1 || request.queries_size() > limits.max_queries_per_request) {
    return Invalid("queries",
                   absl::StrCat("has ", request.queries_size(), " queries, and 1 to ", limits.max_queries_per_request,
                                " (limits.max_queries_per_request) are accepted"));
  }
  if (request.top_k() > limits.max_top_k) {
    return Invalid("top_k", absl::StrCat("is ", request.top_k(), ", and at most ", limits.max_top_k,
                                         " (limits.max_top_k) is accepted"));
  }
  if (!v1::MissingPolicy_IsValid(request.missing_policy())) {
    return Invalid("missing_policy", absl::StrCat("is ", static_cast<int>(request.missing_policy()), ", and 0 to ",
                                                  static_cast<int>(v1::MissingPolicy_MAX), " are accepted"));
  }
  if (!v1::Priority_IsValid(request.priority())) {
    return Invalid("priority", absl::StrCat("is ", static_cast<int>(request.priority()), ", and 0 to ",
                                            static_cast<int>(v1::Priority_MAX), " are accepted"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Translated> Translate(const v1::RerankRequest& request,
                                     std::shared_ptr<const store::Collection> collection, const RequestLimits& limits) {
  if (absl::Status status = CheckEnvelope(request, limits); !status.ok()) return status;
  const TokenMatrixRules rules{.storage = QueryType(collection->storage()),
                               .dim = collection->dim(),
                               .max_tokens = limits.max_query_tokens,
                               .limit_name = "limits.max_query_tokens"};
  // From cheap to dear: shapes, then ids, then the price, and values last.
  for (int i = 0; i < request.queries_size(); ++i) {
    absl::Status status = CheckShape(request.queries(i).tokens(), rules, [i] { return QueryPath(i, "tokens"); });
    if (status.ok()) status = CheckWeights(request.queries(i), i);
    if (!status.ok()) return status;
  }
  Translated translated;
  PendingAnswer& answer = translated.answer;
  answer.request_id = request.request_id();
  answer.return_payloads = request.return_payloads();
  answer.return_alignments = request.return_alignments();
  answer.queries.resize(static_cast<size_t>(request.queries_size()));
  if (absl::Status status = ResolveAll(request, *collection, limits, answer); !status.ok()) return status;
  const auto top_k = static_cast<int32_t>(request.top_k() == 0 ? limits.default_top_k : request.top_k());
  const absl::StatusOr<uint64_t> work = CheckWork(request, top_k, limits, answer);
  if (!work.ok()) return work.status();

  auto job = std::make_unique<engine::Job>();
  if (absl::Status status = BuildJobQueries(request, rules, top_k, answer, *job); !status.ok()) return status;
  answer.collection = collection;
  if (job->queries.empty()) return translated;
  job->collection = std::move(collection);
  job->priority = PriorityOf(request.priority());
  job->fail_on_unavailable = request.missing_policy() == v1::MISSING_POLICY_FAIL;
  job->work = *work;
  translated.job = std::move(job);
  return translated;
}

uint64_t HeldBytes(const engine::Job& job, const PendingAnswer& answer) {
  // A missing id's string, with what the allocator adds.
  constexpr uint64_t kBytesPerString = sizeof(std::string) + 16;
  uint64_t bytes = engine::JobBytes(job) + answer.queries.capacity() * sizeof(PendingAnswer::Query);
  const ResolvedCandidates* last = nullptr;
  for (const PendingAnswer::Query& query : answer.queries) {
    const ResolvedCandidates* const candidates = query.candidates.get();
    if (std::exchange(last, candidates) == candidates) continue;  // queries that share theirs mostly stand together
    bytes += sizeof(ResolvedCandidates) + candidates->missing_int_ids.capacity() * sizeof(int64_t);
    for (const std::string& id : candidates->missing_string_ids) bytes += kBytesPerString + id.size();
  }
  return bytes;
}

absl::Status CheckAnswerSize(const PendingAnswer& answer, const engine::JobResult& result,
                             const RequestLimits& limits) {
  if (!answer.return_payloads) return absl::OkStatus();
  uint64_t bytes = 0;
  for (const PendingAnswer::Query& query : answer.queries) {
    if (query.job_query < 0 || query.candidates->is_inline) continue;
    for (const engine::Hit& hit : result.queries[static_cast<size_t>(query.job_query)].hits) {
      bytes += answer.collection->payload(hit.ordinal).size();
    }
  }
  if (bytes <= limits.max_answer_payload_bytes) return absl::OkStatus();
  return Invalid("return_payloads", absl::StrCat("asks for ", bytes, " bytes of payloads, and at most ",
                                                 limits.max_answer_payload_bytes, " fit an answer; lower top_k"));
}

v1::RerankResponse BuildResponse(const PendingAnswer& answer, const engine::JobResult& result) {
  static const engine::JobQueryResult kNothing;
  v1::RerankResponse response;
  response.set_request_id(answer.request_id);
  response.set_generation(static_cast<uint64_t>(answer.collection->manifest().generation));
  for (const PendingAnswer::Query& query : answer.queries) {
    const engine::JobQueryResult& scored =
        query.job_query < 0 ? kNothing : result.queries[static_cast<size_t>(query.job_query)];
    FillResult(answer, *query.candidates, scored, *response.add_results());
  }
  v1::Timings& timings = *response.mutable_timings();
  timings.set_queue_us(absl::ToDoubleMicroseconds(result.queue_time));
  timings.set_copy_us(absl::ToDoubleMicroseconds(result.copy_time));
  timings.set_kernel_us(absl::ToDoubleMicroseconds(result.kernel_time));
  return response;
}

}  // namespace maxsim::rpc
