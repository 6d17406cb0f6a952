#include "tools/maxsimctl/evaluate/reference_scorer.h"

#include <algorithm>

#include "base/text.h"
#include "tools/maxsimctl/context/collection_view.h"

namespace maxsim::ctl {
namespace {

absl::Status CheckSame(const collection::Manifest& manifest, const std::string& path,
                       const v1::CollectionInfo& collection) {
  const auto differs = [&](const char* what, const std::string& there, const std::string& here) {
    return absl::FailedPreconditionError(Cat("the server's collection '", collection.name(), "' has ", what, " ", there,
                                             ", but the one at ", path, " has ", here,
                                             " (another folder? a newer one: maxsimctl reload)"));
  };
  if (static_cast<uint64_t>(manifest.generation) != collection.generation()) {
    return differs("generation", std::to_string(collection.generation()), std::to_string(manifest.generation));
  }
  if (static_cast<uint32_t>(manifest.dim) != collection.dim()) {
    return differs("dimension", std::to_string(collection.dim()), std::to_string(manifest.dim));
  }
  if (static_cast<int>(manifest.storage) != static_cast<int>(collection.storage())) {
    return differs("storage", StorageName(collection.storage()), std::string(Name(manifest.storage)));
  }
  if (static_cast<uint64_t>(manifest.num_documents) != collection.num_documents()) {
    return differs("a number of documents of", std::to_string(collection.num_documents()),
                   std::to_string(manifest.num_documents));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ReferenceScorer> ReferenceScorer::Open(const std::string& path, const v1::CollectionInfo& collection) {
  if (path.empty())
    return Invalid("--path: is missing, but the server names the collection's folder to administrators only");
  absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(path);
  if (!manifest.ok()) {
    return Prefix("the collection's files are needed on this machine (see --path): ", manifest.status());
  }
  absl::Status same = CheckSame(*manifest, path, collection);
  if (!same.ok()) return same;
  ReferenceScorer scorer;
  scorer.manifest_ = *std::move(manifest);
  scorer.first_.push_back(0);
  for (const collection::ShardEntry& entry : scorer.manifest_.shards) {
    absl::StatusOr<std::shared_ptr<const collection::Shard>> opened =
        collection::Shard::Open(path, scorer.manifest_, entry, collection::Access::kMapped, /*check_checksum=*/false);
    if (!opened.ok()) return opened.status();
    scorer.first_.push_back(scorer.first_.back() + static_cast<uint64_t>((*opened)->documents().num_documents));
    scorer.shards_.push_back(*std::move(opened));
  }
  return scorer;
}

std::pair<size_t, uint32_t> ReferenceScorer::Locate(uint64_t ordinal) const {
  const auto after = std::upper_bound(first_.begin(), first_.end(), ordinal);
  const auto index = static_cast<size_t>(after - first_.begin()) - 1;
  return {index, static_cast<uint32_t>(ordinal - first_[index])};
}

std::vector<ReferenceScore> ReferenceScorer::Scores(const QuerySet& queries, int64_t query,
                                                    const std::vector<uint64_t>* ordinals) const {
  const std::string tokens = queries.Rounded(query, QueryType(manifest_.storage));
  maxsim::Query problem;
  problem.tokens = tokens.data();
  problem.num_tokens = queries.num_tokens(query);
  std::vector<ReferenceScore> scores;
  if (ordinals == nullptr) {
    for (const auto& shard : shards_) {
      const std::vector<ReferenceScore> part = ReferenceScores(shard->documents(), problem);
      scores.insert(scores.end(), part.begin(), part.end());
    }
    return scores;
  }
  // Computes the scores shard by shard, and puts them into the requested order.
  std::vector<std::vector<uint32_t>> local(shards_.size());
  std::vector<std::vector<size_t>> place(shards_.size());
  for (size_t i = 0; i < ordinals->size(); ++i) {
    const auto [index, ordinal] = Locate((*ordinals)[i]);
    local[index].push_back(ordinal);
    place[index].push_back(i);
  }
  scores.resize(ordinals->size());
  for (size_t s = 0; s < shards_.size(); ++s) {
    if (local[s].empty()) continue;
    problem.ordinals = local[s].data();
    problem.num_candidates = static_cast<int64_t>(local[s].size());
    const std::vector<ReferenceScore> part = ReferenceScores(shards_[s]->documents(), problem);
    for (size_t i = 0; i < part.size(); ++i) scores[place[s][i]] = part[i];
  }
  return scores;
}

absl::Status ReferenceScorer::Check() const {
  for (const auto& shard : shards_) {
    if (absl::Status status = shard->Check(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::optional<uint64_t> ReferenceScorer::OrdinalAt(uint64_t position) const {
  if (!manifest_.partition.has_value()) return position < first_.back() ? std::optional(position) : std::nullopt;
  const auto wanted = static_cast<int64_t>(position);
  for (size_t index = 0; index < shards_.size(); ++index) {
    const int64_t* const begin = shards_[index]->ordinals();
    const int64_t* const end = begin + shards_[index]->documents().num_documents;
    if (wanted > end[-1]) continue;
    const int64_t* const found = std::lower_bound(begin, end, wanted);
    if (*found != wanted) return std::nullopt;
    return first_[index] + static_cast<uint64_t>(found - begin);
  }
  return std::nullopt;
}

std::string ReferenceScorer::IdText(uint64_t ordinal) const {
  const auto [index, local] = Locate(ordinal);
  const collection::Shard& shard = *shards_[index];
  if (shard.id_type() == collection::IdType::kInt64) return std::to_string(shard.int_id(local));
  return std::string(shard.string_id(local));
}

}  // namespace maxsim::ctl
