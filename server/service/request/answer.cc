#include "server/service/request/answer.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/saturating.h"
#include "server/service/call/status.h"
#include "server/service/request/payload_fields.h"
#include "server/service/request/refinement.h"

namespace maxsim::service {
namespace {

// Upper bounds of sizes in the encoded answer, in bytes: a hit (score and position), an integer id, a token match,
// and what a string takes in addition to its characters.
constexpr uint64_t kHitBytes = sizeof(float) + 10;
constexpr uint64_t kIntIdBytes = 10;
constexpr uint64_t kMatchBytes = sizeof(float) + 5;
constexpr uint64_t kStringBytes = 6;

absl::Status TooLarge(const std::string& path, const std::string& what, uint64_t bytes, const RequestLimits& limits,
                      const char* advice) {
  return InvalidField(path,
                      absl::StrCat(what, " take ", bytes, " bytes, but an answer has at most ", limits.max_answer_bytes,
                                   " (limits.max_answer_bytes); ", advice),
                      {limits.max_answer_bytes, bytes, "limits.max_answer_bytes"});
}

uint64_t MissingBytes(const ResolvedCandidates& candidates) {
  uint64_t bytes = candidates.missing_int_ids.size() * kIntIdBytes;
  for (const std::string& id : candidates.missing_string_ids) bytes += id.size() + kStringBytes;
  return bytes;
}

// Returns the size of the unknown ids of all queries. Queries that share candidates often stand next to each other, and
// their size is computed once.
uint64_t MissingBytes(const PendingAnswer& answer) {
  uint64_t sum = 0;
  uint64_t bytes = 0;
  const ResolvedCandidates* last = nullptr;
  for (const PendingAnswer::Query& query : answer.queries) {
    if (std::exchange(last, query.candidates.get()) != query.candidates.get()) bytes = MissingBytes(*query.candidates);
    sum = SaturatingAdd(sum, bytes);
  }
  return sum;
}

// Returns the size of the texts of all queries' tokens.
uint64_t PieceBytes(const TextFacts& texts) {
  uint64_t bytes = 0;
  for (const TextFacts::Query& query : texts.queries) {
    for (const std::string& piece : query.pieces) bytes += piece.size() + kStringBytes;
  }
  return bytes;
}

// The results of one query that are on the answer's page.
struct PageResults {
  absl::Span<const engine::Hit> hits;
  absl::Span<const TokenMatch> matches;  // [hits, query tokens] where alignments were asked for, else empty
};

PageResults OnPage(const PendingAnswer& answer, const PendingAnswer::Query& query,
                   const engine::JobQueryResult& scored) {
  const RankRange range = RangeOnPage(answer.page, scored.hits.size(),
                                      [&](size_t idx) { return ScoreOf(answer, query, scored.hits[idx].score); });
  PageResults results{.hits = absl::MakeConstSpan(scored.hits).subspan(range.begin, range.size()), .matches = {}};
  if (scored.matches.empty()) return results;
  const size_t num_tokens = scored.matches.size() / scored.hits.size();
  results.matches = absl::MakeConstSpan(scored.matches).subspan(range.begin * num_tokens, range.size() * num_tokens);
  return results;
}

void FillIds(const store::Collection& collection, absl::Span<const engine::Hit> hits, v1::QueryResult& result) {
  if (collection.manifest().id_type == collection::IdType::kString) {
    auto* ids = result.mutable_string_ids()->mutable_ids();
    ids->Reserve(static_cast<int>(hits.size()));
    for (const engine::Hit& hit : hits) {
      const std::string_view id = collection.string_id(hit.ordinal);
      ids->Add()->assign(id.data(), id.size());
    }
  } else {
    auto* ids = result.mutable_int_ids()->mutable_ids();
    ids->Reserve(static_cast<int>(hits.size()));
    for (const engine::Hit& hit : hits) ids->Add(collection.int_id(hit.ordinal));
  }
}

void FillAlignments(const PageResults& on_page, v1::QueryResult& result) {
  if (on_page.hits.empty()) return;
  const size_t num_tokens = on_page.matches.size() / on_page.hits.size();
  for (size_t h = 0; h < on_page.hits.size(); ++h) {
    v1::Alignment& alignment = *result.add_alignments();
    alignment.mutable_document_tokens()->Reserve(static_cast<int>(num_tokens));
    alignment.mutable_similarities()->Reserve(static_cast<int>(num_tokens));
    for (size_t t = 0; t < num_tokens; ++t) {
      const TokenMatch& match = on_page.matches[h * num_tokens + t];
      alignment.add_document_tokens(static_cast<uint32_t>(match.document_token));
      alignment.add_similarities(match.similarity);
    }
  }
}

// Returns the collection that scored the request.
const store::Collection& AnsweredBy(const PendingAnswer& answer, const engine::JobResult& result) {
  return result.collection == nullptr ? *answer.collection : *result.collection;
}

// Returns a document's payload in the form in which the answer has it.
std::string PayloadOf(const PendingAnswer& answer, const store::Collection& collection, uint64_t ordinal) {
  const std::string_view payload = collection.payload(ordinal);
  return answer.payload_fields.empty() ? std::string(payload) : SelectFields(payload, answer.payload_fields);
}

void FillResult(const PendingAnswer& answer, const store::Collection& collection, const PendingAnswer::Query& query,
                const engine::JobQueryResult& scored, v1::QueryResult& result) {
  const ResolvedCandidates& candidates = *query.candidates;
  const PageResults on_page = OnPage(answer, query, scored);
  if (!candidates.is_inline) FillIds(collection, on_page.hits, result);
  const int count = static_cast<int>(on_page.hits.size());
  result.mutable_scores()->Reserve(count);
  result.mutable_positions()->Reserve(count);
  for (const engine::Hit& hit : on_page.hits) {
    result.add_scores(ScoreOf(answer, query, hit.score));
    result.add_positions(hit.position);
    if (!answer.return_payloads) continue;
    result.add_payloads(candidates.is_inline ? std::string() : PayloadOf(answer, collection, hit.ordinal));
  }
  if (answer.return_alignments) FillAlignments(on_page, result);
  for (const std::string& id : candidates.missing_string_ids) *result.mutable_missing_string_ids()->add_ids() = id;
  for (const int64_t id : candidates.missing_int_ids) result.mutable_missing_int_ids()->add_ids(id);
  result.set_unavailable_documents(scored.num_unavailable);
  if (scored.refinement.has_value()) {
    *result.mutable_refinement() = ToWire(scored, answer.normalize ? static_cast<float>(query.num_tokens) : 1.0F);
  }
}

void FillGroups(const PendingAnswer::GroupedQuery& grouped, v1::QueryResult& result) {
  result.mutable_group_values()->Assign(grouped.values.begin(), grouped.values.end());
  if (grouped.refinement.has_value()) *result.mutable_refinement() = *grouped.refinement;
}

// Sets the positions of hits of queries of the whole collection or of a filter. A hit's position is its ordinal until
// then. In a partition of a collection it becomes the document's position in the undivided collection.
void FillPositions(const PendingAnswer& answer, const store::Collection& collection, v1::RerankResponse& response,
                   const engine::JobResult& result) {
  for (size_t i = 0; i < answer.queries.size(); ++i) {
    const PendingAnswer::Query& query = answer.queries[i];
    if (query.job_query < 0 || !query.candidates->set->has_ordinal_positions()) continue;
    v1::QueryResult& filled = *response.mutable_results(static_cast<int>(i));
    int hit_idx = 0;
    for (const engine::Hit& hit : OnPage(answer, query, result.queries[static_cast<size_t>(query.job_query)]).hits) {
      filled.set_positions(hit_idx++, collection.position(hit.ordinal));
    }
  }
}

}  // namespace

float ScoreOf(const PendingAnswer& answer, const PendingAnswer::Query& query, float score) {
  return answer.normalize ? score / static_cast<float>(query.num_tokens) : score;
}

uint64_t HeldBytes(const engine::Job& job, const PendingAnswer& answer) {
  // The size of a missing id's string object, including the allocator's overhead.
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

absl::Status CheckMissing(const PendingAnswer& answer, const RequestLimits& limits) {
  const uint64_t bytes = MissingBytes(answer);
  if (bytes <= limits.max_answer_bytes) return absl::OkStatus();
  return TooLarge("candidates", "the unknown ids, which the answer repeats for every query,", bytes, limits,
                  "send fewer of them, or fewer queries");
}

absl::Status CheckAlignments(uint64_t num_matches, const RequestLimits& limits) {
  const uint64_t bytes = SaturatingMultiply(num_matches, kMatchBytes);
  if (bytes <= limits.max_answer_bytes) return absl::OkStatus();
  return TooLarge("return_alignments", absl::StrCat(num_matches, " token matches ((offset + top_k) x query tokens)"),
                  bytes, limits, "lower top_k");
}

absl::Status CheckAnswerSize(const PendingAnswer& answer, const engine::JobResult& result,
                             const RequestLimits& limits) {
  const store::Collection& collection = AnsweredBy(answer, result);
  const bool has_strings = collection.manifest().id_type == collection::IdType::kString;
  uint64_t bytes = MissingBytes(answer);
  if (answer.return_alignments) bytes += PieceBytes(answer.texts);
  uint64_t payload_bytes = 0;
  for (const PendingAnswer::Query& query : answer.queries) {
    if (query.job_query < 0) continue;
    const PageResults on_page = OnPage(answer, query, result.queries[static_cast<size_t>(query.job_query)]);
    bytes += on_page.hits.size() * kHitBytes + on_page.matches.size() * kMatchBytes;
    if (query.candidates->is_inline) continue;
    for (const engine::Hit& hit : on_page.hits) {
      bytes += has_strings ? collection.string_id(hit.ordinal).size() + kStringBytes : kIntIdBytes;
      // Count whole payloads, because they are read even if a part is returned.
      if (answer.return_payloads) payload_bytes += collection.payload(hit.ordinal).size() + kStringBytes;
    }
  }
  for (const PendingAnswer::GroupedQuery& grouped : answer.grouped) {
    for (const std::string& value : grouped.values) bytes += value.size() + kStringBytes;
  }
  bytes += payload_bytes;
  if (bytes <= limits.max_answer_bytes) return absl::OkStatus();
  if (bytes - payload_bytes <= limits.max_answer_bytes) {
    return TooLarge("return_payloads", "the results and their payloads", bytes, limits, "lower top_k");
  }
  return TooLarge("top_k", "the results of all queries", bytes, limits, "lower it, or send fewer queries");
}

v1::RerankResponse BuildResponse(const PendingAnswer& answer, const engine::JobResult& result) {
  static const engine::JobQueryResult kNothing;
  v1::RerankResponse response;
  response.set_request_id(answer.request_id);
  const store::Collection& collection = AnsweredBy(answer, result);
  response.set_generation(static_cast<uint64_t>(collection.manifest().generation));
  response.set_sequence(collection.sequence());
  for (size_t i = 0; i < answer.queries.size(); ++i) {
    const PendingAnswer::Query& query = answer.queries[i];
    const engine::JobQueryResult& scored =
        query.job_query < 0 ? kNothing : result.queries[static_cast<size_t>(query.job_query)];
    v1::QueryResult& filled = *response.add_results();
    FillResult(answer, collection, query, scored, filled);
    if (!answer.grouped.empty()) FillGroups(answer.grouped[i], filled);
  }
  if (collection.is_partition()) FillPositions(answer, collection, response, result);
  AddTextFacts(answer.texts, answer.return_alignments, response);
  v1::Timings& timings = *response.mutable_timings();
  timings.set_queue_us(absl::ToDoubleMicroseconds(result.queue_time));
  timings.set_copy_us(absl::ToDoubleMicroseconds(result.copy_time));
  timings.set_kernel_us(absl::ToDoubleMicroseconds(result.kernel_time));
  return response;
}

}  // namespace maxsim::service
