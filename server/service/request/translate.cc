#include "server/service/request/translate.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/saturating.h"
#include "client/status.h"
#include "collection/collection_name.h"
#include "kernels/limits.h"
#include "server/service/call/status.h"
#include "server/service/page/grouping.h"
#include "server/service/page/page.h"
#include "server/service/request/refinement.h"
#include "server/service/request/token_matrix.h"
#include "server/service/selection/filter_message.h"
#include "server/service/selection/selected_documents.h"

namespace maxsim::service {
namespace {

std::string QueryPath(int idx, const char* field) { return absl::StrCat("queries[", idx, "].", field); }

absl::Status CheckWeights(const v1::Query& query, int idx) {
  if (query.weights().empty()) return absl::OkStatus();
  if (query.weights_size() != static_cast<int64_t>(query.tokens().num_tokens())) {
    return InvalidField(QueryPath(idx, "weights"), absl::StrCat("has ", query.weights_size(), " weights for ",
                                                                query.tokens().num_tokens(), " tokens"));
  }
  for (int i = 0; i < query.weights_size(); ++i) {
    const float weight = query.weights(i);
    if (std::isfinite(weight) && std::abs(weight) <= kMaxAbsWeight) continue;
    return InvalidField(
        absl::StrCat(QueryPath(idx, "weights"), "[", i, "]"),
        absl::StrCat("is ", weight, "; weights must be finite and their magnitude at most ", kMaxAbsWeight));
  }
  return absl::OkStatus();
}

// For a request with group_by: finds the documents that are visible, match the filter and have a value in the field to
// group by. Also sets answer.grouping.
[[gnu::noinline]] absl::StatusOr<std::shared_ptr<const store::MatchingDocuments>> FindGrouped(
    const v1::RerankRequest& request, const store::Collection& collection, const RequestLimits& limits,
    const StopCheck& check, PendingAnswer& answer) {
  const absl::StatusOr<std::optional<collection::Filter>> filter = CanonicalSelection(request, collection);
  if (!filter.ok()) return filter.status();
  absl::StatusOr<Grouping> grouping =
      GroupingOf(request, filter->has_value() ? &**filter : nullptr, collection.manifest().fields, limits);
  if (!grouping.ok()) return grouping.status();
  answer.grouping = std::make_shared<const Grouping>(*std::move(grouping));
  return collection.FindCanonical(AllOf(answer.grouping->filters), store::FilterUse::kRepeated, check);
}

// Returns whether the request chooses or groups documents by their fields. Most requests do not, and skip the code for
// filters because of this.
bool UsesFields(const v1::RerankRequest& request) {
  return request.matching_case() != v1::RerankRequest::MATCHING_NOT_SET || request.has_visible() ||
         !request.group_by().empty() || request.group_size() != 0 || !request.group_values().empty();
}

// Finds the documents that are visible, match the request's filter and, with group_by, have a value in the field to
// group by. Returns null if the request asks for none of these.
absl::StatusOr<std::shared_ptr<const store::MatchingDocuments>> FindMatching(const v1::RerankRequest& request,
                                                                             const store::Collection& collection,
                                                                             const RequestLimits& limits,
                                                                             const StopCheck& check,
                                                                             PendingAnswer& answer) {
  // Inline documents, and collections that have no name, have no fields.
  if (!UsesFields(request) || HasInlineDocumentsAlone(request)) return nullptr;
  if (!request.group_by().empty()) return FindGrouped(request, collection, limits, check, answer);
  return FindSelected(request, collection, check);
}

bool HasListedIds(const v1::Candidates& candidates) { return candidates.has_string_ids() || candidates.has_int_ids(); }

// Finds the documents that the request may name by id. Returns null if that is all of them, or if the request lists no
// ids.
absl::StatusOr<std::shared_ptr<const store::MatchingDocuments>> FindKnown(const v1::RerankRequest& request,
                                                                          const store::Collection& collection,
                                                                          const StopCheck& check) {
  if (!request.has_visible()) return nullptr;
  bool has_ids = HasListedIds(request.candidates());
  for (const v1::Query& query : request.queries()) has_ids |= HasListedIds(query.candidates());
  if (!has_ids) return nullptr;
  return FindVisible(request.visible(), collection, check);
}

// Checks the parts of a filter and of group_by that need no collection.
absl::Status CheckUseOfFields(const v1::RerankRequest& request, const RequestLimits& limits) {
  if (!UsesFields(request)) return absl::OkStatus();
  const absl::StatusOr<std::optional<collection::Filter>> filter = FilterOfRequest(request);
  if (!filter.ok()) return filter.status();
  if (absl::Status status = CheckGrouping(request, limits); !status.ok()) return status;
  if (request.has_visible()) {
    if (absl::Status status = CheckVisible(request.visible()); !status.ok()) return status;
  }
  const bool is_grouped = !request.group_by().empty();
  if (!filter->has_value() && !is_grouped) return absl::OkStatus();
  for (int i = 0; i < request.queries_size(); ++i) {
    if (!CandidatesOf(request, request.queries(i)).has_inline_documents()) continue;
    const char* const field = !filter->has_value() ? "group_by" : request.has_filter_text() ? "filter_text" : "filter";
    return InvalidField(field, absl::StrCat("is set, but the candidates of queries[", i,
                                            "] are inline documents, which have no fields to ",
                                            filter->has_value() ? "filter by" : "group by"));
  }
  return absl::OkStatus();
}

// Resolves each query's candidates. Queries without candidates of their own share the request's, which are resolved
// once.
absl::Status ResolveAll(const v1::RerankRequest& request, const store::Collection& collection,
                        const RequestLimits& limits, const StopCheck& check, PendingAnswer& answer) {
  const bool fail_on_missing = request.missing_policy() == v1::MISSING_POLICY_FAIL;
  const auto matching = FindMatching(request, collection, limits, check, answer);
  if (!matching.ok()) return matching.status();
  const auto known = FindKnown(request, collection, check);
  if (!known.ok()) return known.status();
  std::shared_ptr<const ResolvedCandidates> shared;
  for (int i = 0; i < request.queries_size(); ++i) {
    const v1::Query& query = request.queries(i);
    PendingAnswer::Query& pending = answer.queries[static_cast<size_t>(i)];
    if (query.has_candidates()) {
      auto own = ResolveCandidates(
          query.candidates(), collection, *matching, limits, fail_on_missing,
          [i] { return QueryPath(i, "candidates"); }, known->get());
      if (!own.ok()) return own.status();
      pending.candidates = *std::move(own);
      continue;
    }
    if (shared == nullptr) {
      if (!request.has_candidates()) {
        return InvalidField("candidates", absl::StrCat("is not set, and queries[", i, "] has none of its own"));
      }
      auto resolved = ResolveCandidates(
          request.candidates(), collection, *matching, limits, fail_on_missing,
          [] { return std::string("candidates"); }, known->get());
      if (!resolved.ok()) return resolved.status();
      shared = *std::move(resolved);
    }
    pending.candidates = shared;
  }
  return absl::OkStatus();
}

// Checks the request's token pairs and its number of alignments against the limits. Returns the token pairs (as
// engine::ComputeWork counts them).
absl::StatusOr<uint64_t> CheckWork(const v1::RerankRequest& request, int32_t num_ranked, const RequestLimits& limits,
                                   const PendingAnswer& answer) {
  uint64_t work = 0;
  uint64_t matches = 0;
  for (size_t i = 0; i < answer.queries.size(); ++i) {
    const uint64_t tokens = request.queries(static_cast<int>(i)).tokens().num_tokens();
    const ResolvedCandidates& candidates = *answer.queries[i].candidates;
    work = SaturatingAdd(work, SaturatingMultiply(tokens, candidates.num_tokens));
    matches += tokens * std::min<uint64_t>(static_cast<uint64_t>(num_ranked), candidates.num_documents);
  }
  if (work > limits.max_request_work) {
    return InvalidField(
        "queries",
        absl::StrCat("ask for ", work, " token pairs (query tokens x candidate tokens); must be at most ",
                     limits.max_request_work, " (limits.max_request_work)"),
        {limits.max_request_work, work, "limits.max_request_work"});
  }
  if (request.return_alignments() && matches > static_cast<uint64_t>(limits.max_alignments)) {
    return InvalidField(
        "return_alignments",
        absl::StrCat("asks for ", matches, " token matches ((offset + top_k) x query tokens); must be at most ",
                     limits.max_alignments, " (limits.max_alignments)"),
        {limits.max_alignments, matches, "limits.max_alignments"});
  }
  if (request.return_alignments()) {
    if (absl::Status status = CheckAlignments(matches, limits); !status.ok()) return status;
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

// Returns whether some queries search the whole collection while others have lists of documents that were found in this
// snapshot: by ids or by a filter.
bool MixesScansAndLists(const engine::Job& job) {
  bool scans = false;
  bool lists = false;
  for (const engine::JobQuery& query : job.queries) {
    scans |= query.candidates->kind == engine::CandidateSet::Kind::kWholeCollection;
    lists |= query.candidates->kind == engine::CandidateSet::Kind::kOrdinals ||
             query.candidates->kind == engine::CandidateSet::Kind::kMatching;
  }
  return scans && lists;
}

// Converts the queries that have documents to score. Stores in `answer` which query of the job belongs to which query.
absl::Status BuildJobQueries(const v1::RerankRequest& request, const store::Collection& collection,
                             const TokenMatrixRules& rules, int32_t num_ranked, PendingAnswer& answer,
                             engine::Job& job) {
  job.queries.reserve(static_cast<size_t>(request.queries_size()));
  for (int i = 0; i < request.queries_size(); ++i) {
    const v1::Query& query = request.queries(i);
    PendingAnswer::Query& pending = answer.queries[static_cast<size_t>(i)];
    pending.num_tokens = query.tokens().num_tokens();
    engine::JobQuery converted;
    absl::Status status = AppendRows(
        query.tokens(), rules, [i] { return QueryPath(i, "tokens"); }, converted.tokens);
    if (!status.ok()) return status;
    if (pending.candidates->num_documents == 0) continue;
    converted.weights.assign(query.weights().begin(), query.weights().end());
    converted.num_tokens = static_cast<int32_t>(query.tokens().num_tokens());
    converted.top_k = num_ranked;
    converted.want_alignments = request.return_alignments();
    if (collection.code_planes() > 0 && !pending.candidates->is_inline) {
      const uint64_t num_candidates = pending.candidates->num_documents;
      const absl::StatusOr<engine::RefinementOptions> refinement =
          RefinementFor(request.refinement(), num_ranked, num_candidates, GpuBytes(collection, num_candidates));
      if (!refinement.ok()) return refinement.status();
      converted.refinement = *refinement;
    }
    converted.candidates = pending.candidates->set;
    pending.job_query = static_cast<int>(job.queries.size());
    job.queries.push_back(std::move(converted));
  }
  return absl::OkStatus();
}

absl::Status CheckPayloadFields(const v1::RerankRequest& request) {
  if (request.payload_fields_size() > kMaxPayloadFields) {
    return InvalidField(
        "payload_fields",
        absl::StrCat("has ", request.payload_fields_size(), " names; must have at most ", kMaxPayloadFields),
        {kMaxPayloadFields, request.payload_fields_size()});
  }
  for (int i = 0; i < request.payload_fields_size(); ++i) {
    const size_t num_bytes = request.payload_fields(i).size();
    if (num_bytes >= 1 && num_bytes <= kMaxPayloadFieldBytes) continue;
    return InvalidField(absl::StrCat("payload_fields[", i, "]"),
                        absl::StrCat("has ", num_bytes, " bytes; must have 1 to ", kMaxPayloadFieldBytes),
                        {kMaxPayloadFieldBytes, num_bytes});
  }
  return absl::OkStatus();
}

constexpr absl::Duration kSequenceRetryDelay = absl::Milliseconds(50);

}  // namespace

absl::Status CheckSequence(uint64_t min_sequence, const store::Collection& collection) {
  if (min_sequence == 0 || collection.sequence() >= min_sequence) return absl::OkStatus();
  if (!collection.is_live()) {
    return InvalidField("min_sequence", absl::StrCat("is ", min_sequence, ", but collection \"", collection.name(),
                                                     "\" is not live: it has no writes to wait for"));
  }
  absl::Status status = FieldError(absl::StatusCode::kUnavailable, client::kReasonSequenceNotReached, "min_sequence",
                                   absl::StrCat("is ", min_sequence, ", but collection ", collection.name(),
                                                " has only reached ", collection.sequence()));
  client::SetRetryAfter(kSequenceRetryDelay, status);
  return status;
}

absl::Status CheckGeneration(uint64_t generation, const store::Collection& collection) {
  return CheckGeneration(generation, collection.name(), collection.is_live(),
                         static_cast<uint64_t>(collection.manifest().generation));
}

absl::Status CheckGeneration(uint64_t generation, const std::string& collection, bool is_live, uint64_t served) {
  if (generation == 0) return absl::OkStatus();
  if (is_live) {
    return InvalidField("generation", absl::StrCat("is ", generation, ", but collection ", collection,
                                                   " is live; use min_sequence instead"));
  }
  if (generation == served) return absl::OkStatus();
  absl::Status status =
      absl::FailedPreconditionError(absl::StrCat("collection ", collection, ": is of generation ", served,
                                                 ", but generation ", generation, " was asked for (generation)"));
  client::SetReason(client::kReasonOtherGeneration, status);
  return status;
}

const v1::Candidates& CandidatesOf(const v1::RerankRequest& request, const v1::Query& query) {
  return query.has_candidates() ? query.candidates() : request.candidates();
}

bool HasInlineDocumentsAlone(const v1::RerankRequest& request) {
  return std::all_of(request.queries().begin(), request.queries().end(),
                     [&](const v1::Query& query) { return CandidatesOf(request, query).has_inline_documents(); });
}

absl::Status CheckEnvelope(const v1::RerankRequest& request, const RequestLimits& limits) {
  if (request.request_id().size() > static_cast<size_t>(kMaxRequestIdBytes)) {
    return InvalidField(
        "request_id",
        absl::StrCat("has ", request.request_id().size(), " bytes; must have at most ", kMaxRequestIdBytes),
        {kMaxRequestIdBytes, request.request_id().size()});
  }
  if (request.collection().empty() && !HasInlineDocumentsAlone(request)) {
    return InvalidField("collection", "is empty; only inline documents are scored without one");
  }
  if (request.collection().empty() && request.generation() != 0) {
    return InvalidField("generation", absl::StrCat("is ", request.generation(), ", but no collection is named"));
  }
  if (request.collection().size() > collection::kMaxCollectionNameBytes) {
    return InvalidField("collection",
                        absl::StrCat("has ", request.collection().size(), " bytes; must have at most ",
                                     collection::kMaxCollectionNameBytes),
                        {collection::kMaxCollectionNameBytes, request.collection().size()});
  }
  if (request.queries_size() < 1 || request.queries_size() > limits.max_queries_per_request) {
    return InvalidField("queries",
                        absl::StrCat("has ", request.queries_size(), " queries; must have 1 to ",
                                     limits.max_queries_per_request, " (limits.max_queries_per_request)"),
                        {limits.max_queries_per_request, request.queries_size(), "limits.max_queries_per_request"});
  }
  if (absl::Status status = CheckPage(request, limits); !status.ok()) return status;
  if (!v1::MissingPolicy_IsValid(request.missing_policy())) {
    return InvalidField("missing_policy", absl::StrCat("is ", static_cast<int>(request.missing_policy()),
                                                       "; must be 0 to ", static_cast<int>(v1::MissingPolicy_MAX)));
  }
  if (!v1::Priority_IsValid(request.priority())) {
    return InvalidField("priority", absl::StrCat("is ", static_cast<int>(request.priority()), "; must be 0 to ",
                                                 static_cast<int>(v1::Priority_MAX)));
  }
  if (request.has_refinement()) {
    const int64_t num_results = PageOf(request, limits).num_ranked() * GroupSizeOf(request);
    if (absl::Status status = CheckRefinement(request.refinement(), num_results); !status.ok()) return status;
  }
  if (absl::Status status = CheckUseOfFields(request, limits); !status.ok()) return status;
  return CheckPayloadFields(request);
}

absl::StatusOr<Translated> Translate(const v1::RerankRequest& request,
                                     std::shared_ptr<const store::Collection> collection, const RequestLimits& limits,
                                     const StopCheck& check) {
  if (absl::Status status = CheckSnapshotFor(request, *collection); !status.ok()) return status;
  const TokenMatrixRules rules{.storage = QueryType(collection->storage()),
                               .dim = collection->dim(),
                               .dim_is_of_collection = !collection->name().empty(),
                               .max_tokens = limits.max_query_tokens,
                               .limit_name = "limits.max_query_tokens"};
  // Make cheap checks first: shapes, then ids, then the amount of work, then values.
  for (int i = 0; i < request.queries_size(); ++i) {
    absl::Status status = CheckShape(request.queries(i).tokens(), rules, [i] { return QueryPath(i, "tokens"); });
    if (status.ok()) status = CheckWeights(request.queries(i), i);
    if (!status.ok()) return status;
  }
  Translated translated;
  PendingAnswer& answer = translated.answer;
  answer.request_id = request.request_id();
  answer.return_payloads = request.return_payloads() || !request.payload_fields().empty();
  answer.payload_fields.assign(request.payload_fields().begin(), request.payload_fields().end());
  answer.normalize = request.normalize();
  answer.return_alignments = request.return_alignments();
  answer.queries.resize(static_cast<size_t>(request.queries_size()));
  if (absl::Status status = ResolveAll(request, *collection, limits, check, answer); !status.ok()) return status;
  if (absl::Status status = CheckMissing(answer, limits); !status.ok()) return status;
  answer.page = PageOf(request, limits);
  const auto num_ranked = static_cast<int32_t>(answer.page.num_ranked() * GroupSizeOf(request));
  const absl::StatusOr<uint64_t> work = CheckWork(request, num_ranked, limits, answer);
  if (!work.ok()) return work.status();

  auto job = std::make_unique<engine::Job>();
  if (absl::Status status = BuildJobQueries(request, *collection, rules, num_ranked, answer, *job); !status.ok()) {
    return status;
  }
  answer.collection = collection;
  if (job->queries.empty()) return translated;
  job->collection = std::move(collection);
  job->priority = PriorityOf(request.priority());
  job->fail_on_unavailable = request.missing_policy() == v1::MISSING_POLICY_FAIL;
  job->work = *work;
  // If only some queries have lists of documents from this snapshot, the queries of the whole collection must be scored
  // on this snapshot, too.
  job->pinned = MixesScansAndLists(*job);
  translated.job = std::move(job);
  return translated;
}

}  // namespace maxsim::service
