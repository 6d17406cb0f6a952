#include "server/cluster/parts/split.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "server/cluster/parts/restriction.h"
#include "server/service/call/status.h"
#include "server/service/page/grouping.h"
#include "server/service/request/candidates.h"
#include "server/service/request/translate.h"

namespace maxsim::cluster {
namespace {

using Kind = SplitRequest::Query::Kind;

// A list of ids, split among the parts.
struct DealtList {
  std::vector<std::shared_ptr<Positions>> by_part;  // null where the part holds none of the ids
};

template <typename Ids>
DealtList Deal(const Ids& ids, const CollectionView& collection) {
  DealtList dealt{std::vector<std::shared_ptr<Positions>>(collection.parts.size())};
  for (int i = 0; i < ids.size(); ++i) {
    auto& positions = dealt.by_part[collection.PartIndexOf(collection::SlotOf(ids.Get(i)))];
    if (positions == nullptr) positions = std::make_shared<Positions>();
    positions->push_back(static_cast<uint32_t>(i));
  }
  return dealt;
}

DealtList DealIds(const v1::Candidates& candidates, const CollectionView& collection) {
  return candidates.has_int_ids() ? Deal(candidates.int_ids().ids(), collection)
                                  : Deal(candidates.string_ids().ids(), collection);
}

// Copies the ids at these positions.
void CopyIds(const v1::Candidates& from, const Positions& positions, v1::Candidates& to) {
  if (from.has_int_ids()) {
    auto* const ids = to.mutable_int_ids()->mutable_ids();
    ids->Reserve(static_cast<int>(positions.size()));
    for (const uint32_t position : positions) ids->Add(from.int_ids().ids(static_cast<int>(position)));
    return;
  }
  auto* const ids = to.mutable_string_ids()->mutable_ids();
  ids->Reserve(static_cast<int>(positions.size()));
  for (const uint32_t position : positions) *ids->Add() = from.string_ids().ids(static_cast<int>(position));
}

std::string CandidatesPath(int query) { return absl::StrCat("queries[", query, "].candidates"); }

// Does the work of one call of SplitRerank.
class Splitter {
 public:
  Splitter(v1::RerankRequest& request, const CollectionView* collection, const service::RequestLimits& limits,
           uint64_t turn)
      : request_(request), collection_(collection), limits_(limits), turn_(turn) {}

  absl::Status Read() {
    split_.request_id = request_.request_id();
    split_.page = service::PageOf(request_, limits_);
    split_.group_size = request_.group_by().empty() ? 0 : static_cast<size_t>(service::GroupSizeOf(request_));
    split_.normalize = request_.normalize();
    split_.return_alignments = request_.return_alignments();
    split_.fail_on_missing = request_.missing_policy() == v1::MISSING_POLICY_FAIL;
    split_.names_generation = request_.generation() != 0;
    split_.has_int_ids = collection_ != nullptr && collection_->has_int_ids();
    for (int i = 0; i < request_.queries_size(); ++i) {
      if (absl::Status status = ReadQuery(i); !status.ok()) return status;
    }
    return CheckAlignments();
  }

  SplitRequest Build() {
    const size_t num_parts = collection_ == nullptr ? 1 : collection_->parts.size();
    const size_t for_inline = collection_ == nullptr ? 0 : PartForInline();
    for (size_t part = 0; part < num_parts; ++part) BuildPart(part, part == for_inline);
    return std::move(split_);
  }

 private:
  // Checks the limit on alignments for the whole request, because each part's share may be within the limit although
  // the sum is not.
  absl::Status CheckAlignments() const {
    if (!request_.return_alignments()) return absl::OkStatus();
    uint64_t matches = 0;
    const auto num_results = static_cast<uint64_t>(split_.page.num_ranked() * service::GroupSizeOf(request_));
    for (size_t i = 0; i < split_.queries.size(); ++i) {
      const SplitRequest::Query& query = split_.queries[i];
      const v1::Candidates& candidates = service::CandidatesOf(request_, request_.queries(static_cast<int>(i)));
      uint64_t num_documents = query.num_ids;
      // The error must not say how many documents there are that the request may not see.
      if (query.kind == Kind::kWhole) {
        num_documents = request_.has_visible() ? num_results : collection_->info.num_documents();
      }
      if (query.kind == Kind::kInline) {
        num_documents = static_cast<uint64_t>(candidates.inline_documents().documents_size());
      }
      matches += query.num_tokens * std::min(num_documents, num_results);
    }
    if (matches <= static_cast<uint64_t>(limits_.max_alignments)) return absl::OkStatus();
    return service::InvalidField(
        "return_alignments",
        absl::StrCat("asks for ", matches, " token matches ((offset + top_k) x query tokens); must be at most ",
                     limits_.max_alignments, " (limits.max_alignments)"),
        {limits_.max_alignments, matches, "limits.max_alignments"});
  }

  absl::Status ReadQuery(int idx) {
    const v1::Query& query = request_.queries(idx);
    if (!query.has_candidates() && !request_.has_candidates()) {
      return service::InvalidField("candidates",
                                   absl::StrCat("is not set, and queries[", idx, "] has none of its own"));
    }
    const v1::Candidates& candidates = service::CandidatesOf(request_, query);
    SplitRequest::Query read{.kind = Kind::kListed,
                             .has_own_candidates = query.has_candidates(),
                             .num_tokens = query.tokens().num_tokens(),
                             .num_ids = 0};
    const auto path = [&] { return read.has_own_candidates ? CandidatesPath(idx) : std::string("candidates"); };
    switch (candidates.kind_case()) {
      case v1::Candidates::kWholeCollection:
        read.kind = Kind::kWhole;
        break;
      case v1::Candidates::kInlineDocuments:
        read.kind = Kind::kInline;
        break;
      case v1::Candidates::KIND_NOT_SET:
        return service::InvalidField(path(), "names none of string_ids, int_ids, whole_collection, inline_documents");
      default:
        read.num_ids = static_cast<size_t>(candidates.has_int_ids() ? candidates.int_ids().ids_size()
                                                                    : candidates.string_ids().ids_size());
    }
    const bool is_first = read.has_own_candidates || shared_ == nullptr;
    if (read.kind == Kind::kListed && is_first) {
      const collection::IdType held = split_.has_int_ids ? collection::IdType::kInt64 : collection::IdType::kString;
      absl::Status status = service::CheckListedIds(candidates, held, request_.collection(), limits_, path);
      if (!status.ok()) return status;
      auto dealt = std::make_shared<const DealtList>(DealIds(candidates, *collection_));
      if (!read.has_own_candidates) shared_ = dealt;
      lists_.push_back(std::move(dealt));
    } else {
      lists_.push_back(read.kind == Kind::kListed ? shared_ : nullptr);
    }
    split_.queries.push_back(read);
    return absl::OkStatus();
  }

  // Returns the part that gets the inline documents. `turn_` rotates among the parts that have a replica that
  // answers. If no part has one, it rotates among the parts that have any replica.
  size_t PartForInline() const {
    const size_t count = collection_->parts.size();
    size_t chosen = turn_ % count;
    bool has_replica = false;
    for (size_t i = 0; i < count; ++i) {
      const size_t part = (turn_ + i) % count;
      const Replicas& replicas = collection_->parts[part].target.replicas;
      if (std::any_of(replicas.begin(), replicas.end(),
                      [](const std::shared_ptr<Replica>& replica) { return replica->poll_status().ok(); })) {
        return part;
      }
      if (!has_replica && !replicas.empty()) {
        chosen = part;
        has_replica = true;
      }
    }
    return chosen;
  }

  // Returns whether a part gets a query.
  bool Asks(size_t part, bool takes_inline, size_t query) const {
    switch (split_.queries[query].kind) {
      case Kind::kWhole:
        return true;
      case Kind::kInline:
        return takes_inline;
      case Kind::kListed:
        return lists_[query]->by_part[part] != nullptr;
    }
    return false;
  }

  void BuildPart(size_t part, bool takes_inline) {
    PartRequest built;
    built.part = collection_ == nullptr ? PartRequest::kAnyGroup : part;
    auto sub = std::make_shared<v1::RerankRequest>();
    for (size_t query = 0; query < split_.queries.size(); ++query) {
      if (Asks(part, takes_inline, query)) AddQuery(part, static_cast<int>(query), *sub, built);
    }
    if (built.queries.empty()) return;
    sub->set_request_id(request_.request_id());
    sub->set_collection(request_.collection());
    // All documents of the merged page may come from one part. So each part is asked for all ranks up to the end of
    // the page.
    sub->set_top_k(static_cast<uint32_t>(split_.page.num_ranked()));
    // Parts only report missing ids. The router applies the client's policy after all parts have answered.
    sub->set_missing_policy(v1::MISSING_POLICY_REPORT);
    sub->set_priority(request_.priority());
    sub->set_return_payloads(request_.return_payloads());
    sub->set_return_alignments(request_.return_alignments());
    sub->set_return_token_pairs(request_.return_token_pairs());
    *sub->mutable_payload_fields() = request_.payload_fields();
    sub->set_min_sequence(request_.min_sequence());
    // Each group refines as many documents as a single server would, since it may hold all of the best documents.
    if (request_.has_refinement()) *sub->mutable_refinement() = request_.refinement();
    // Each group applies the filter to its own documents.
    if (request_.has_filter()) *sub->mutable_filter() = request_.filter();
    if (request_.has_filter_text()) sub->set_filter_text(request_.filter_text());
    built.has_visible = request_.has_visible();
    if (request_.has_visible()) *sub->mutable_visible() = request_.visible();
    if (!request_.group_by().empty()) {
      sub->set_group_by(request_.group_by());
      sub->set_group_size(request_.group_size());
      *sub->mutable_group_values() = request_.group_values();
    }
    // Inline documents belong to no generation.
    const bool is_inline = std::all_of(built.queries.begin(), built.queries.end(), [this](int query) {
      return split_.queries[static_cast<size_t>(query)].kind == Kind::kInline;
    });
    if (collection_ != nullptr && !is_inline) {
      sub->set_generation(collection_->generation);
      RestrictToSlots(collection_->parts[part], *sub);
    }
    built.request = std::move(sub);
    split_.parts.push_back(std::move(built));
  }

  void AddQuery(size_t part, int idx, v1::RerankRequest& sub, PartRequest& built) {
    v1::Query& from = *request_.mutable_queries(idx);
    const SplitRequest::Query& read = split_.queries[static_cast<size_t>(idx)];
    v1::Query& to = *sub.add_queries();
    *to.mutable_tokens() = from.tokens();
    *to.mutable_weights() = from.weights();
    built.queries.push_back(idx);
    const std::shared_ptr<Positions> positions =
        read.kind == Kind::kListed ? lists_[static_cast<size_t>(idx)]->by_part[part] : nullptr;
    built.positions.push_back(positions);
    if (!read.has_own_candidates && sub.has_candidates()) return;
    v1::Candidates& target = read.has_own_candidates ? *to.mutable_candidates() : *sub.mutable_candidates();
    v1::Candidates& source = read.has_own_candidates ? *from.mutable_candidates() : *request_.mutable_candidates();
    switch (read.kind) {
      case Kind::kWhole:
        target.mutable_whole_collection();
        break;
      case Kind::kInline:
        // Inline documents go to one part only.
        *target.mutable_inline_documents() = std::move(*source.mutable_inline_documents());
        break;
      case Kind::kListed:
        CopyIds(source, *positions, target);
        break;
    }
  }

  v1::RerankRequest& request_;
  const CollectionView* const collection_;
  const service::RequestLimits& limits_;
  const uint64_t turn_;
  SplitRequest split_;
  std::shared_ptr<const DealtList> shared_;
  std::vector<std::shared_ptr<const DealtList>> lists_;  // [queries]; null where a query has none
};

}  // namespace

absl::Status CheckMinSequence(uint64_t min_sequence, const CollectionView& collection) {
  if (min_sequence == 0) return absl::OkStatus();
  if (!collection.info.has_live()) {
    return service::InvalidField("min_sequence",
                                 absl::StrCat("is ", min_sequence, ", but collection \"", collection.name,
                                              "\" is not live: it has no writes to wait for"));
  }
  if (collection.has_one_log()) return absl::OkStatus();
  return service::InvalidField("min_sequence",
                               absl::StrCat("is ", min_sequence, ", but the groups of collection ", collection.name,
                                            " have logs of their own (live.log: nats gives them one)"));
}

absl::StatusOr<SplitRequest> SplitRerank(v1::RerankRequest& request, const CollectionView* collection,
                                         const service::RequestLimits& limits, uint64_t turn) {
  if (collection != nullptr) {
    // In the order in which a server checks, so that a request with two mistakes gets the same error.
    absl::Status status = CheckMinSequence(request.min_sequence(), *collection);
    if (!status.ok()) return status;
    status = service::CheckGeneration(request.generation(), request.collection(), collection->info.has_live(),
                                      collection->generation);
    if (!status.ok()) return status;
  }
  Splitter splitter(request, collection, limits, turn);
  if (absl::Status status = splitter.Read(); !status.ok()) return status;
  return splitter.Build();
}

void ReturnInlineDocuments(const SplitRequest& split, v1::RerankRequest& request) {
  for (const PartRequest& part : split.parts) {
    for (size_t i = 0; i < part.queries.size(); ++i) {
      const int idx = part.queries[i];
      const SplitRequest::Query& read = split.queries[static_cast<size_t>(idx)];
      if (read.kind != Kind::kInline) continue;
      // Copy the documents: an attempt may still be reading the part's request.
      if (read.has_own_candidates) {
        *request.mutable_queries(idx)->mutable_candidates() = part.request->queries(static_cast<int>(i)).candidates();
      } else {
        *request.mutable_candidates() = part.request->candidates();
      }
    }
  }
}

}  // namespace maxsim::cluster
