#include "server/cluster/parts/check_rerank.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/codes/code_layout.h"
#include "kernels/limits.h"
#include "kernels/rank_order.h"
#include "server/cluster/parts/answer_snapshot.h"
#include "server/cluster/parts/distinct_keys.h"
#include "server/service/page/grouping.h"
#include "server/service/request/translate.h"

namespace maxsim::cluster {
namespace {

using Fault = std::optional<AnswerFault>;
using StringList = google::protobuf::RepeatedPtrField<std::string>;
using IntList = google::protobuf::RepeatedField<int64_t>;

template <typename Ids>
using KeyOf = std::conditional_t<std::is_same_v<Ids, StringList>, absl::string_view, int64_t>;

template <typename... Args>
Fault WrongField(const char* field, const Args&... message) {
  return AnswerFault{field, absl::StrCat(message...)};
}

// A hit, as RanksBefore compares it.
struct RankedHit {
  float score;
  uint64_t position;
};

// Checks the result of one query.
class ResultCheck {
 public:
  ResultCheck(const v1::RerankRequest& request, int query_idx, const AskedPart& part, const v1::QueryResult& result)
      : request_(request),
        query_(request.queries(query_idx)),
        sent_(service::CandidatesOf(request, query_)),
        part_(part),
        result_(result),
        idx_(query_idx) {}

  Fault Run() const {
    Fault fault = CheckSizes();
    if (!fault.has_value()) fault = is_grouped() ? CheckGroups() : CheckScores();
    if (!fault.has_value()) fault = CheckDocuments();
    if (!fault.has_value() && result_.has_refinement()) fault = CheckRefinement();
    if (!fault.has_value() && request_.return_alignments()) fault = CheckAlignments();
    return fault;
  }

 private:
  bool is_grouped() const { return !request_.group_by().empty(); }
  // Returns how many results the request asks for.
  uint64_t max_results() const {
    return uint64_t{request_.top_k()} * static_cast<uint64_t>(service::GroupSizeOf(request_));
  }
  bool is_inline() const { return sent_.has_inline_documents(); }
  bool is_listed() const { return sent_.has_string_ids() || sent_.has_int_ids(); }
  bool has_int_ids() const { return is_listed() ? sent_.has_int_ids() : part_.has_int_ids; }
  int num_hits() const { return result_.scores_size(); }
  std::string Path(const char* field) const { return absl::StrCat("results[", idx_, "].", field); }

  Fault CheckSize(const char* field, int size, int expected) const {
    if (size == expected) return std::nullopt;
    return WrongField(field, Path(field), " has ", size, " elements, but ", expected, " belong to its results");
  }

  // Checks the sizes of all fields that later checks index.
  Fault CheckSizes() const {
    const int hits = num_hits();
    const int strings = is_inline() || has_int_ids() ? 0 : hits;
    const int ints = is_inline() || !has_int_ids() ? 0 : hits;
    Fault fault = CheckSize("positions", result_.positions_size(), hits);
    if (!fault.has_value()) fault = CheckSize("string_ids", result_.string_ids().ids_size(), strings);
    if (!fault.has_value()) fault = CheckSize("int_ids", result_.int_ids().ids_size(), ints);
    const bool has_payloads = request_.return_payloads() || request_.payload_fields_size() > 0;
    if (!fault.has_value()) fault = CheckSize("payloads", result_.payloads_size(), has_payloads ? hits : 0);
    const bool has_alignments = request_.return_alignments();
    if (!fault.has_value()) fault = CheckSize("alignments", result_.alignments_size(), has_alignments ? hits : 0);
    if (!fault.has_value()) fault = CheckSize("group_values", result_.group_values_size(), is_grouped() ? hits : 0);
    // The router encodes texts itself. So a replica never returns a query's tokens as text, and never reports that it
    // cut a text.
    if (!fault.has_value()) fault = CheckSize("query_tokens", result_.query_tokens_size(), 0);
    if (!fault.has_value()) fault = CheckSize("truncated", result_.truncated_size(), 0);
    if (!fault.has_value() && (!is_listed() || has_int_ids())) {
      fault = CheckSize("missing_string_ids", result_.missing_string_ids().ids_size(), 0);
    }
    if (!fault.has_value() && (!is_listed() || !has_int_ids())) {
      fault = CheckSize("missing_int_ids", result_.missing_int_ids().ids_size(), 0);
    }
    return fault;
  }

  // Checks that scores are finite and in rank order.
  Fault CheckScores() const {
    for (int i = 0; i < num_hits(); ++i) {
      Fault fault = CheckFinite(i);
      if (!fault.has_value() && i > 0) fault = CheckOrder(i - 1, i);
      if (fault.has_value()) return fault;
    }
    return std::nullopt;
  }

  // Checks that scores are finite; that the documents of a group are adjacent and in rank order; that the groups are
  // in the rank order of their first documents; and that there are no more groups, and no more documents in a group,
  // than the request asks for.
  Fault CheckGroups() const {
    DistinctKeys<absl::string_view> seen(static_cast<size_t>(num_hits()));
    int first = 0;  // of the group
    uint64_t num_groups = 0;
    for (int i = 0; i < num_hits(); ++i) {
      Fault fault = CheckFinite(i);
      if (fault.has_value()) return fault;
      if (i > 0 && result_.group_values(i) == result_.group_values(i - 1)) {
        fault = CheckOrder(i - 1, i);
        if (!fault.has_value() && i - first >= service::GroupSizeOf(request_)) {
          fault = WrongField("group_values", Path("group_values"), "[", i, "] is one more than group_size");
        }
      } else {
        if (!seen.Insert(result_.group_values(i)) || ++num_groups > request_.top_k()) {
          return WrongField("group_values", Path("group_values"), "[", i, "] is repeated, or of too many groups");
        }
        if (i > 0) fault = CheckOrder(first, i);
        first = i;
      }
      if (fault.has_value()) return fault;
    }
    return std::nullopt;
  }

  Fault CheckFinite(int i) const {
    if (std::isfinite(result_.scores(i))) return std::nullopt;
    return WrongField("scores", Path("scores"), "[", i, "] is ", result_.scores(i), "; must be finite");
  }

  Fault CheckOrder(int before_idx, int idx) const {
    const RankedHit before{result_.scores(before_idx), result_.positions(before_idx)};
    const RankedHit now{result_.scores(idx), result_.positions(idx)};
    if (RanksBefore(before, now)) return std::nullopt;
    return WrongField("order", Path("scores"), "[", idx, "] is ", now.score, " at position ", now.position,
                      ", but does not rank after ", before.score, " at position ", before.position);
  }

  Fault CheckDocuments() const {
    if (is_inline()) return CheckInline();
    if (!is_listed())
      return has_int_ids() ? CheckWhole(result_.int_ids().ids()) : CheckWhole(result_.string_ids().ids());
    if (has_int_ids()) {
      return CheckListed(sent_.int_ids().ids(), result_.int_ids().ids(), result_.missing_int_ids().ids());
    }
    return CheckListed(sent_.string_ids().ids(), result_.string_ids().ids(), result_.missing_string_ids().ids());
  }

  // Checks that the result has min(top_k, `num_documents` less the unavailable ones) documents. With a filter or
  // groups the result may have fewer, because the router does not know how many documents match or are visible.
  Fault CheckCount(uint64_t num_documents) const {
    const uint64_t unavailable = result_.unavailable_documents();
    if (unavailable > num_documents) {
      return WrongField("unavailable_documents", Path("unavailable_documents"), " is ", unavailable, ", but ",
                        num_documents, " documents were to be scored");
    }
    const uint64_t expected = std::min<uint64_t>(max_results(), num_documents - unavailable);
    const auto count = static_cast<uint64_t>(num_hits());
    const bool is_filtered = request_.matching_case() != v1::RerankRequest::MATCHING_NOT_SET || is_grouped() ||
                             (part_.has_visible && !is_inline());
    if (count == expected || (is_filtered && count < expected)) return std::nullopt;
    return WrongField("scores", Path("scores"), " has ", num_hits(), " elements, but ", expected,
                      " were to be returned");
  }

  Fault CheckInline() const {
    const int count = sent_.inline_documents().documents_size();
    DistinctKeys<uint64_t> seen(static_cast<size_t>(num_hits()));
    for (int i = 0; i < num_hits(); ++i) {
      const uint64_t position = result_.positions(i);
      if (position >= static_cast<uint64_t>(count)) return PositionBeyond(i, count);
      if (!seen.Insert(position)) return WrongField("positions", Path("positions"), "[", i, "] is repeated");
    }
    return CheckCount(static_cast<uint64_t>(count));
  }

  template <typename Ids>
  Fault CheckWhole(const Ids& ids) const {
    DistinctKeys<KeyOf<Ids>> seen(static_cast<size_t>(ids.size()));
    for (int i = 0; i < ids.size(); ++i) {
      const auto& id = ids.Get(i);
      if (const int32_t slot = collection::SlotOf(id); !part_.slots.contains(slot)) {
        return WrongField("ids", Path("ids"), "[", i, "] is of slot ", slot, ", but the group has ",
                          collection::DescribeSlots(part_.slots));
      }
      if (!seen.Insert(id)) return WrongField("ids", Path("ids"), "[", i, "] is repeated");
    }
    // If the request names no generation, the collection is live, and its number of documents is not known.
    if (request_.generation() != 0) return CheckCount(part_.num_documents);
    if (static_cast<uint64_t>(ids.size()) <= max_results()) return std::nullopt;
    return WrongField("scores", Path("scores"), " has ", ids.size(), " elements, but at most ", max_results(),
                      " were asked for");
  }

  template <typename Ids>
  Fault CheckListed(const Ids& sent, const Ids& ids, const Ids& missing) const {
    DistinctKeys<KeyOf<Ids>> seen(static_cast<size_t>(ids.size()) + static_cast<size_t>(missing.size()));
    for (int i = 0; i < ids.size(); ++i) {
      const uint64_t position = result_.positions(i);
      if (position >= static_cast<uint64_t>(sent.size())) return PositionBeyond(i, sent.size());
      if (sent.Get(static_cast<int>(position)) != ids.Get(i)) {
        return WrongField("ids", Path("ids"), "[", i, "] is not the candidate at position ", position);
      }
      if (!seen.Insert(ids.Get(i))) return WrongField("ids", Path("ids"), "[", i, "] is repeated");
    }
    // The missing ids must be in the order of the request's list, each once.
    int next = 0;
    for (int i = 0; i < missing.size(); ++i) {
      while (next < sent.size() && sent.Get(next) != missing.Get(i)) ++next;
      if (next == sent.size() || !seen.Insert(missing.Get(i))) {
        return WrongField("missing", Path("missing"), "[", i,
                          "] is not a candidate in its order, or is one that was found");
      }
    }
    // A repeated candidate counts once. To save time, repeated candidates are searched for only if there are too few
    // results.
    const auto num_missing = static_cast<uint64_t>(missing.size());
    if (!CheckCount(static_cast<uint64_t>(sent.size()) - num_missing).has_value()) return std::nullopt;
    DistinctKeys<KeyOf<Ids>> distinct(static_cast<size_t>(sent.size()));
    for (const auto& id : sent) distinct.Insert(id);
    return CheckCount(distinct.size() - num_missing);
  }

  Fault PositionBeyond(int idx, int count) const {
    return WrongField("positions", Path("positions"), "[", idx, "] is ", result_.positions(idx), ", but ", count,
                      " candidates were sent");
  }

  // Checks a refinement against the result. The certificate must be NOT_PROVEN, or PROVEN with numbers that prove it.
  Fault CheckRefinement() const {
    const v1::Refinement& refinement = result_.refinement();
    const auto wrong = [this](const char* field, const auto&... text) {
      return WrongField("refinement", Path("refinement."), field, text...);
    };
    if (is_inline()) return wrong("planes", " are of inline documents, which have no codes");
    if (refinement.planes() > 4 || !IsPlaneCount(static_cast<int>(refinement.planes()))) {
      return wrong("planes", " is ", refinement.planes(), "; must be 1, 2 or 4");
    }
    if (refinement.documents() < static_cast<uint64_t>(num_hits())) {
      return wrong("documents", " is ", refinement.documents(), ", less than its ", num_hits(), " results");
    }
    if (!std::isfinite(refinement.margin()) || !std::isfinite(refinement.outside_score())) {
      return wrong("outside_score", " is ", refinement.outside_score(), " with margin ", refinement.margin(),
                   "; both must be finite");
    }
    if (refinement.certificate() == v1::CERTIFICATE_NOT_PROVEN) return std::nullopt;
    // With group_by, several scans choose the result. In this case outside_score may be as high as the last score.
    const bool is_proof =
        !refinement.has_outside_score() ||
        (refinement.outside_is_bound() &&
         (is_grouped() || (num_hits() > 0 && refinement.outside_score() < result_.scores(num_hits() - 1))));
    if (refinement.certificate() == v1::CERTIFICATE_PROVEN && is_proof) return std::nullopt;
    return wrong("certificate", " is ", static_cast<int>(refinement.certificate()), " with outside_score ",
                 refinement.outside_score());
  }

  Fault CheckAlignments() const {
    const auto num_tokens = static_cast<int64_t>(query_.tokens().num_tokens());
    for (int i = 0; i < num_hits(); ++i) {
      const v1::Alignment& alignment = result_.alignments(i);
      if (alignment.document_tokens_size() != num_tokens || alignment.similarities_size() != num_tokens) {
        return WrongField("alignments", Path("alignments"), "[", i, "] has ", alignment.document_tokens_size(),
                          " tokens and ", alignment.similarities_size(), " similarities for a query of ", num_tokens);
      }
      int64_t document_tokens = kMaxDocumentTokens;
      if (is_inline()) {
        document_tokens = sent_.inline_documents().documents(static_cast<int>(result_.positions(i))).num_tokens();
      }
      for (int t = 0; t < alignment.document_tokens_size(); ++t) {
        if (alignment.document_tokens(t) < document_tokens && std::isfinite(alignment.similarities(t))) continue;
        return WrongField("alignments", Path("alignments"), "[", i, "] has token ", alignment.document_tokens(t),
                          " with similarity ", alignment.similarities(t), ", but tokens end at ", document_tokens);
      }
    }
    return std::nullopt;
  }

  const v1::RerankRequest& request_;
  const v1::Query& query_;
  const v1::Candidates& sent_;
  const AskedPart& part_;
  const v1::QueryResult& result_;
  const int idx_;
};

Fault CheckGenerationAsked(uint64_t asked, uint64_t answered) {
  if (asked == 0 || asked == answered) return std::nullopt;
  return WrongField("generation", "generation is ", answered, ", but ", asked, " was asked for");
}

Fault CheckTimings(const v1::Timings& timings) {
  for (const auto& [name, value] : {std::pair{"queue_us", timings.queue_us()}, std::pair{"copy_us", timings.copy_us()},
                                    std::pair{"kernel_us", timings.kernel_us()}}) {
    if (!std::isfinite(value)) return WrongField("timings", "timings.", name, " is ", value, "; must be finite");
  }
  return std::nullopt;
}

}  // namespace

AskedPart AskedPartOf(const PartRequest& part, const CollectionView* collection) {
  if (collection == nullptr || part.part == PartRequest::kAnyGroup) return {};
  const CollectionView::Part& of = collection->parts[part.part];
  return {.has_int_ids = collection->has_int_ids(),
          .slots = of.slots,
          .num_documents = of.num_documents,
          .has_visible = part.has_visible};
}

std::optional<AnswerFault> CheckRerankAnswer(const v1::RerankRequest& request, const AskedPart& part,
                                             const v1::RerankResponse& answer) {
  if (answer.request_id() != request.request_id()) {
    return WrongField("request_id", "request_id is that of another request");
  }
  if (answer.results_size() != request.queries_size()) {
    return WrongField("results", "results has ", answer.results_size(), " elements, but ", request.queries_size(),
                      " queries were sent");
  }
  Fault fault = CheckSnapshot(request, answer);
  if (!fault.has_value()) fault = CheckTimings(answer.timings());
  for (int i = 0; !fault.has_value() && i < answer.results_size(); ++i) {
    // An answer to a query without tokens is always wrong. Besides, normalized scores are divided by the number of
    // tokens.
    if (request.queries(i).tokens().num_tokens() == 0) {
      return WrongField("results", "results[", i, "] is for a query without tokens");
    }
    fault = ResultCheck(request, i, part, answer.results(i)).Run();
  }
  return fault;
}

std::optional<AnswerFault> CheckExplainAnswer(const v1::RerankRequest& request, const v1::ExplainResponse& answer) {
  if (Fault fault = CheckGenerationAsked(request.generation(), answer.generation()); fault.has_value()) return fault;
  const uint32_t query_tokens = request.queries(0).tokens().num_tokens();
  if (answer.num_query_tokens() != query_tokens || answer.query_tokens_size() != 0) {
    return WrongField("query_tokens", "num_query_tokens is ", answer.num_query_tokens(), " with ",
                      answer.query_tokens_size(), " texts, but the query has ", query_tokens, " tokens without text");
  }
  const uint64_t document_tokens = answer.num_document_tokens();
  const auto num_texts = static_cast<uint64_t>(answer.document_tokens_size());
  if (document_tokens < 1 || document_tokens > kMaxDocumentTokens || (num_texts != 0 && num_texts != document_tokens)) {
    return WrongField("document_tokens", "num_document_tokens is ", document_tokens, " with ", num_texts,
                      " texts; must be 1 to ", kMaxDocumentTokens);
  }
  if (static_cast<uint64_t>(answer.similarities_size()) != document_tokens * query_tokens) {
    return WrongField("similarities", "similarities has ", answer.similarities_size(), " elements, but ",
                      document_tokens, " x ", query_tokens, " belong to the tokens");
  }
  if (!std::isfinite(answer.score())) return WrongField("scores", "score is ", answer.score(), "; must be finite");
  for (int i = 0; i < answer.similarities_size(); ++i) {
    if (std::isfinite(answer.similarities(i))) continue;
    return WrongField("similarities", "similarities[", i, "] is ", answer.similarities(i), "; must be finite");
  }
  return std::nullopt;
}

}  // namespace maxsim::cluster
