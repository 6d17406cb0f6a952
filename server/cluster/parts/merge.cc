#include "server/cluster/parts/merge.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/saturating.h"
#include "base/text.h"
#include "client/status.h"
#include "server/cluster/parts/clients_index.h"
#include "server/cluster/parts/part_result.h"
#include "server/service/call/status.h"
#include "server/service/request/candidates.h"
#include "server/service/request/refinement.h"
#include "server/service/request/translate.h"

namespace maxsim::cluster {
namespace {

// Returns a hit's score in the form in which the answer reports it.
float ScoreOf(float score, const SplitRequest& split, const SplitRequest::Query& query) {
  return split.normalize ? score / static_cast<float>(query.num_tokens) : score;
}

void MoveHit(PartResult& from, int idx, uint64_t position, const SplitRequest& split, const SplitRequest::Query& query,
             v1::QueryResult& to) {
  v1::QueryResult& source = *from.result;
  to.add_scores(ScoreOf(source.scores(idx), split, query));
  to.add_positions(position);
  if (query.kind != SplitRequest::Query::Kind::kInline) {
    if (split.has_int_ids) {
      to.mutable_int_ids()->add_ids(source.int_ids().ids(idx));
    } else {
      *to.mutable_string_ids()->add_ids() = std::move(*source.mutable_string_ids()->mutable_ids(idx));
    }
  }
  if (source.payloads_size() > 0) *to.add_payloads() = std::move(*source.mutable_payloads(idx));
  if (source.alignments_size() > 0) *to.add_alignments() = std::move(*source.mutable_alignments(idx));
}

// An id that the collection does not hold: its position in the client's list, the part's result that reports it, and
// its index there.
struct MissingId {
  uint64_t position = 0;
  uint32_t from = 0;
  int32_t idx = 0;
};

// Finds the positions of a part's missing ids in the client's list. `missing` has the same order as `sent`, the ids
// that the part was asked for.
template <typename Ids>
void FindMissing(const Ids& missing, const Ids& sent, const Positions& positions, uint32_t from,
                 std::vector<MissingId>& found) {
  int next = 0;
  for (int i = 0; i < missing.size(); ++i) {
    while (next < sent.size() && sent.Get(next) != missing.Get(i)) ++next;
    if (next == sent.size()) return;
    found.push_back({positions[static_cast<size_t>(next)], from, i});
  }
}

class Merger {
 public:
  Merger(const SplitRequest& split, const CollectionView* collection, const service::RequestLimits& limits)
      : split_(split), collection_(collection), limits_(limits), parts_(split.queries.size()) {}

  // Takes a part's answer. The answer must outlive this object.
  void Add(const PartRequest& part, v1::RerankResponse& answer) {
    for (size_t i = 0; i < part.queries.size(); ++i) {
      parts_[static_cast<size_t>(part.queries[i])].push_back({&part, i, answer.mutable_results(static_cast<int>(i))});
    }
    v1::Timings& timings = *response_.mutable_timings();
    timings.set_queue_us(std::max(timings.queue_us(), answer.timings().queue_us()));
    timings.set_copy_us(std::max(timings.copy_us(), answer.timings().copy_us()));
    timings.set_kernel_us(std::max(timings.kernel_us(), answer.timings().kernel_us()));
    // A part that was sent only inline documents reports a generation, too. Use it only if no other part reports one.
    if (part.request->generation() != 0 || collection_ == nullptr || collection_->generation == 0 ||
        response_.generation() == 0) {
      response_.set_generation(answer.generation());
    }
    if (collection_ != nullptr && !collection_->has_one_log()) return;
    // The merged answer includes only the writes that all of its parts have seen, so it reports the lowest sequence.
    response_.set_sequence(num_answers_++ == 0 ? answer.sequence() : std::min(response_.sequence(), answer.sequence()));
  }

  // Records that a part is lost.
  void Lose(const PartRequest& part, const std::string& group) {
    if (!group.empty()) response_.add_unavailable_groups(group);
    lost_.push_back(&part);
  }

  absl::StatusOr<v1::RerankResponse> Build() {
    response_.set_request_id(split_.request_id);
    for (size_t query = 0; query < split_.queries.size(); ++query) {
      absl::Status status = BuildResult(query, *response_.add_results());
      if (!status.ok()) return status;
    }
    if (absl::Status status = CheckSize(); !status.ok()) return status;
    return std::move(response_);
  }

 private:
  // If the answer is larger than limits.max_answer_bytes, returns INVALID_ARGUMENT with the option that adds most to
  // its size.
  absl::Status CheckSize() const {
    const auto bytes = static_cast<uint64_t>(response_.ByteSizeLong());
    if (bytes <= limits_.max_answer_bytes) return absl::OkStatus();
    uint64_t payload_bytes = 0;
    uint64_t missing_bytes = 0;
    for (const v1::QueryResult& result : response_.results()) {
      for (const std::string& payload : result.payloads()) payload_bytes += payload.size();
      missing_bytes += result.missing_string_ids().ByteSizeLong() + result.missing_int_ids().ByteSizeLong();
    }
    const char* field = "top_k";
    const char* advice = "lower it, or send fewer queries";
    if (missing_bytes > limits_.max_answer_bytes) {
      field = "candidates";
      advice = "most of it are unknown ids: send fewer of them, or fewer queries";
    } else if (bytes - payload_bytes <= limits_.max_answer_bytes) {
      field = "return_payloads";
      advice = "lower top_k";
    }
    return service::InvalidField(field,
                                 absl::StrCat("the answer takes ", bytes, " bytes, but may have at most ",
                                              limits_.max_answer_bytes, " (limits.max_answer_bytes); ", advice),
                                 {limits_.max_answer_bytes, bytes, "limits.max_answer_bytes"});
  }

  absl::Status BuildResult(size_t query, v1::QueryResult& to) {
    const SplitRequest::Query& asked = split_.queries[query];
    for (const PartResult& part : parts_[query]) {
      to.set_unavailable_documents(SaturatingAdd(to.unavailable_documents(), part.result->unavailable_documents()));
    }
    if (asked.kind != SplitRequest::Query::Kind::kInline) {
      // Set the kind of the ids even if the result has none.
      if (split_.has_int_ids) {
        to.mutable_int_ids();
      } else {
        to.mutable_string_ids();
      }
    }
    if (split_.group_size > 0) {
      MoveGroups(query, to);
    } else {
      MovePage(query, to);
    }
    CountLost(query, to);
    if (split_.fail_on_missing && to.unavailable_documents() > 0) {
      return service::FieldError(absl::StatusCode::kUnavailable, client::kReasonDeviceLost,
                                 absl::StrCat("queries[", query, "]"),
                                 absl::StrCat("the device of ", to.unavailable_documents(),
                                              " of its candidates is lost (missing_policy is FAIL)"));
    }
    return AddMissing(query, to);
  }

  // Moves the hits of the page, and merges the refinements of the parts.
  void MovePage(size_t query, v1::QueryResult& to) {
    const SplitRequest::Query& asked = split_.queries[query];
    std::vector<PartHit> hits = HitsOf(parts_[query]);
    const auto count = std::min(hits.size(), static_cast<size_t>(split_.page.num_ranked()));
    std::partial_sort(hits.begin(), hits.begin() + static_cast<std::ptrdiff_t>(count), hits.end(), MergesBefore);
    hits.resize(count);
    MergeRefinements(query, hits, to);
    const auto score_of = [&](size_t idx) { return ScoreOf(hits[idx].score, split_, asked); };
    const service::RankRange on_page = service::RangeOnPage(split_.page, hits.size(), score_of);
    for (size_t idx = on_page.begin; idx < on_page.end; ++idx) {
      const PartHit& hit = hits[idx];
      MoveHit(parts_[query][hit.from], hit.idx, hit.position, split_, asked, to);
    }
  }

  // Moves the hits of the groups on the page, and merges the refinements of the parts.
  void MoveGroups(size_t query, v1::QueryResult& to) {
    const SplitRequest::Query& asked = split_.queries[query];
    const float divisor = split_.normalize ? static_cast<float>(asked.num_tokens) : 1.0F;
    for (const PartResult& part : parts_[query]) {
      if (!part.result->has_refinement()) continue;
      v1::Refinement scan = part.result->refinement();
      scan.set_margin(scan.margin() / divisor);
      if (scan.has_outside_score()) scan.set_outside_score(scan.outside_score() / divisor);
      to.has_refinement() ? service::AddScan(scan, *to.mutable_refinement()) : to.mutable_refinement()->Swap(&scan);
    }
    const std::vector<HitGroup> groups = GroupsOf(parts_[query]);
    const auto end = std::min(groups.size(), static_cast<size_t>(split_.page.num_ranked()));
    for (auto group = static_cast<size_t>(split_.page.offset); group < end; ++group) {
      const std::vector<PartHit>& hits = groups[group].hits;
      for (size_t idx = 0; idx < std::min(hits.size(), split_.group_size); ++idx) {
        if (ScoreOf(hits[idx].score, split_, asked) < split_.page.min_score) break;
        to.add_group_values(std::string(groups[group].value));
        MoveHit(parts_[query][hits[idx].from], hits[idx].idx, hits[idx].position, split_, asked, to);
      }
    }
  }

  // Merges the refinements of the groups. A group's proof stays valid for the merged hits, because the last of these
  // scores at least as high as the group's own last hit. For the same reason, a bound that is too high to prove the
  // group's own hits may still prove the merged hits.
  void MergeRefinements(size_t query, const std::vector<PartHit>& hits, v1::QueryResult& to) const {
    v1::Refinement merged;
    bool all_are_bounds = true;
    for (const PartResult& part : parts_[query]) {
      if (!part.result->has_refinement()) continue;
      const v1::Refinement& one = part.result->refinement();
      merged.set_planes(merged.planes() == 0 ? one.planes() : std::min(merged.planes(), one.planes()));
      merged.set_documents(SaturatingAdd(merged.documents(), one.documents()));
      if (!one.has_outside_score()) continue;
      all_are_bounds = all_are_bounds && one.outside_is_bound();
      merged.set_outside_score(merged.has_outside_score() ? std::max(merged.outside_score(), one.outside_score())
                                                          : one.outside_score());
    }
    if (merged.planes() == 0) return;
    merged.set_outside_is_bound(merged.has_outside_score() && all_are_bounds);
    const bool is_full = hits.size() == static_cast<size_t>(split_.page.num_ranked());
    const bool is_proven =
        !merged.has_outside_score() || (all_are_bounds && is_full && merged.outside_score() < hits.back().score);
    const float divisor = split_.normalize ? static_cast<float>(split_.queries[query].num_tokens) : 1.0F;
    if (merged.has_outside_score()) merged.set_outside_score(merged.outside_score() / divisor);
    service::SetCertificate(is_proven, hits.empty() ? 0 : hits.back().score / divisor, merged);
    *to.mutable_refinement() = std::move(merged);
  }

  // Counts the documents of lost parts. Each id of a list counts once. For a query of the whole collection, each lost
  // part counts as many documents as it last reported.
  void CountLost(size_t query, v1::QueryResult& to) {
    uint64_t count = 0;
    for (const PartRequest* part : lost_) {
      for (size_t i = 0; i < part->queries.size(); ++i) {
        if (part->queries[i] != static_cast<int>(query)) continue;
        if (split_.queries[query].kind == SplitRequest::Query::Kind::kWhole) {
          // The router does not know how many of the documents the client may see. 1 says that some may be missing.
          const uint64_t num_documents = collection_->parts[part->part].num_documents;
          count = SaturatingAdd(count, part->has_visible ? std::min<uint64_t>(num_documents, 1) : num_documents);
        } else if (part->positions[i] != nullptr) {
          count += CountIds(*part, i);
        } else {
          count += static_cast<uint64_t>(SentTo(*part, i).inline_documents().documents_size());
        }
      }
    }
    to.set_unavailable_documents(SaturatingAdd(to.unavailable_documents(), count));
  }

  static const v1::Candidates& SentTo(const PartRequest& part, size_t sub_query) {
    return service::CandidatesOf(*part.request, part.request->queries(static_cast<int>(sub_query)));
  }

  // Counts the different ids of a part's list.
  static uint64_t CountIds(const PartRequest& part, size_t sub_query) {
    const v1::Candidates& sent = SentTo(part, sub_query);
    if (sent.has_int_ids()) {
      return std::set<int64_t>(sent.int_ids().ids().begin(), sent.int_ids().ids().end()).size();
    }
    return std::set<std::string_view>(sent.string_ids().ids().begin(), sent.string_ids().ids().end()).size();
  }

  absl::Status AddMissing(size_t query, v1::QueryResult& to) {
    std::vector<PartResult>& parts = parts_[query];
    std::vector<MissingId> missing;
    for (size_t from = 0; from < parts.size(); ++from) {
      const PartResult& part = parts[from];
      const int count =
          split_.has_int_ids ? part.result->missing_int_ids().ids_size() : part.result->missing_string_ids().ids_size();
      if (count == 0) continue;
      const v1::Candidates& sent = SentTo(*part.part, part.sub_query);
      if (split_.has_int_ids) {
        FindMissing(part.result->missing_int_ids().ids(), sent.int_ids().ids(), *part.positions(),
                    static_cast<uint32_t>(from), missing);
      } else {
        FindMissing(part.result->missing_string_ids().ids(), sent.string_ids().ids(), *part.positions(),
                    static_cast<uint32_t>(from), missing);
      }
    }
    if (missing.empty()) return absl::OkStatus();
    std::sort(missing.begin(), missing.end(),
              [](const MissingId& a, const MissingId& b) { return a.position < b.position; });
    if (split_.fail_on_missing) return Unknown(query, missing);
    for (const MissingId& id : missing) {
      v1::QueryResult& from = *parts[id.from].result;
      if (split_.has_int_ids) {
        to.mutable_missing_int_ids()->add_ids(from.missing_int_ids().ids(id.idx));
      } else {
        *to.mutable_missing_string_ids()->add_ids() =
            std::move(*from.mutable_missing_string_ids()->mutable_ids(id.idx));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Unknown(size_t query, const std::vector<MissingId>& missing) const {
    const SplitRequest::Query& asked = split_.queries[query];
    const MissingId& first = missing.front();
    const v1::QueryResult& from = *parts_[query][first.from].result;
    const std::string id = split_.has_int_ids ? absl::StrCat(from.missing_int_ids().ids(first.idx))
                                              : absl::StrCat("\"", from.missing_string_ids().ids(first.idx), "\"");
    return service::UnknownIds(missing.size(), asked.num_ids, id, [&] {
      return asked.has_own_candidates ? absl::StrCat("queries[", query, "].candidates") : std::string("candidates");
    });
  }

  const SplitRequest& split_;
  const CollectionView* const collection_;
  const service::RequestLimits& limits_;
  std::vector<std::vector<PartResult>> parts_;  // [queries]
  std::vector<const PartRequest*> lost_;
  size_t num_answers_ = 0;
  v1::RerankResponse response_;
};

// Returns the error that a request ends with, or OK if the parts that answered are enough.
absl::Status ErrorOf(const SplitRequest& split, const CollectionView* collection,
                     const std::vector<absl::StatusOr<v1::RerankResponse>>& answers) {
  size_t num_lost = 0;
  absl::Status lost;
  for (size_t i = 0; i < answers.size(); ++i) {
    const absl::Status& status = answers[i].status();
    if (status.ok()) continue;
    if (!IsLost(status) || (split.names_generation && IsOtherGeneration(status))) {
      return WithClientsIndex(status, "queries", split.parts[i].queries);
    }
    ++num_lost;
    const size_t part = split.parts[i].part;
    const std::string group = part == PartRequest::kAnyGroup || collection == nullptr
                                  ? std::string("the cluster")
                                  : absl::StrCat("group ", collection->parts[part].target.group->name());
    const std::string text = absl::StrCat(group, " does not answer: ", status.message());
    // Keeps the error's details only if its code stays the same, because they would not fit another code.
    const bool keeps_code = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
    lost.Update(keeps_code ? WithMessage(status, text) : absl::UnavailableError(text));
  }
  if (num_lost == 0 || (num_lost < answers.size() && !split.fail_on_missing)) return absl::OkStatus();
  return lost;
}

}  // namespace

bool IsLost(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      // A group that returns a retry delay is not lost. It has not yet applied the write that
      // RerankRequest.min_sequence names.
      return !client::RetryAfter(status).has_value();
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kNotFound:          // the collection was unloaded there
    case absl::StatusCode::kDeadlineExceeded:  // it was silent, or too slow
      return true;
    default:
      return IsOtherView(status);
  }
}

absl::StatusOr<v1::RerankResponse> MergeRerank(const SplitRequest& split, const CollectionView* collection,
                                               std::vector<absl::StatusOr<v1::RerankResponse>> answers,
                                               const service::RequestLimits& limits) {
  if (absl::Status status = ErrorOf(split, collection, answers); !status.ok()) return status;
  Merger merger(split, collection, limits);
  for (size_t i = 0; i < answers.size(); ++i) {
    const PartRequest& part = split.parts[i];
    if (!answers[i].ok()) {
      merger.Lose(part, collection == nullptr ? "" : collection->parts[part.part].target.group->name());
      continue;
    }
    merger.Add(part, *answers[i]);
  }
  return merger.Build();
}

}  // namespace maxsim::cluster
