#include "collection/evaluation/scored_collection.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "kernels/rank_order.h"

namespace maxsim::evaluation {

absl::StatusOr<ScoredCollection> ScoredCollection::Open(const std::string& folder, Backend* backend) {
  absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(folder);
  if (!manifest.ok()) return manifest.status();
  ScoredCollection collection;
  collection.manifest_ = *std::move(manifest);
  int64_t largest = 1;
  uint64_t first = 0;
  for (const collection::ShardEntry& entry : collection.manifest_.shards) {
    absl::StatusOr<std::shared_ptr<const collection::Shard>> opened = collection::Shard::Open(
        folder, collection.manifest_, entry, collection::Access::kMapped, /*check_checksum=*/false);
    if (!opened.ok()) return opened.status();
    absl::StatusOr<std::unique_ptr<Documents>> documents =
        backend->Load((*opened)->documents(), Tier::kDevice, *opened);
    if (!documents.ok()) return Prefix(Cat((*opened)->path(), ": "), documents.status());
    collection.parts_.push_back({*std::move(opened), *std::move(documents), first});
    first += static_cast<uint64_t>(entry.num_documents);
    largest = std::max(largest, entry.num_documents);
  }
  absl::StatusOr<std::unique_ptr<Executor>> executor =
      backend->CreateExecutor({.max_candidates = largest, .max_dim = collection.manifest_.dim});
  if (!executor.ok()) return executor.status();
  collection.executor_ = *std::move(executor);
  return collection;
}

absl::StatusOr<std::vector<Scored>> ScoredCollection::Run(const Part& part, const QuerySet& queries, int64_t query,
                                                          const std::vector<uint32_t>* ordinals, int32_t k) {
  const std::string tokens = queries.Rounded(query, QueryType(manifest_.storage));
  const Query problem{.tokens = tokens.data(),
                      .num_tokens = queries.num_tokens(query),
                      .ordinals = ordinals == nullptr ? nullptr : ordinals->data(),
                      .num_candidates = ordinals == nullptr ? 0 : static_cast<int64_t>(ordinals->size()),
                      .top_k = k};
  std::vector<Scored> scored;
  absl::Status status = executor_->TopK(*part.documents, {&problem, 1}, {&scored, 1}, nullptr);
  if (!status.ok()) return status;
  return scored;
}

absl::StatusOr<std::vector<ScoredDocument>> ScoredCollection::TopK(const QuerySet& queries, int64_t query, int32_t k) {
  std::vector<ScoredDocument> best;
  for (const Part& part : parts_) {
    const absl::StatusOr<std::vector<Scored>> found = Run(part, queries, query, nullptr, k);
    if (!found.ok()) return found.status();
    const auto middle = static_cast<ptrdiff_t>(best.size());
    for (const Scored& scored : *found) best.push_back({part.first + scored.position, scored.score});
    std::inplace_merge(best.begin(), best.begin() + middle, best.end(), RanksBefore);
    if (best.size() > static_cast<size_t>(k)) best.resize(static_cast<size_t>(k));
  }
  return best;
}

absl::StatusOr<std::vector<float>> ScoredCollection::Scores(const QuerySet& queries, int64_t query,
                                                            absl::Span<const uint64_t> ordinals) {
  std::vector<float> scores(ordinals.size());
  size_t begin = 0;
  for (const Part& part : parts_) {
    std::vector<uint32_t> local;
    const uint64_t end_ordinal = part.first + static_cast<uint64_t>(part.documents->num_documents());
    for (size_t idx = begin; idx < ordinals.size() && ordinals[idx] < end_ordinal; ++idx) {
      local.push_back(static_cast<uint32_t>(ordinals[idx] - part.first));
    }
    if (local.empty()) continue;
    const absl::StatusOr<std::vector<Scored>> found =
        Run(part, queries, query, &local, static_cast<int32_t>(local.size()));
    if (!found.ok()) return found.status();
    for (const Scored& scored : *found) scores[begin + scored.position] = scored.score;
    begin += local.size();
  }
  return scores;
}

const ScoredCollection::Part& ScoredCollection::PartOf(uint64_t ordinal) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), ordinal,
                                      [](uint64_t value, const Part& part) { return value < part.first; });
  return *(after - 1);
}

std::string ScoredCollection::IdText(uint64_t ordinal) const {
  const Part& part = PartOf(ordinal);
  const auto local = static_cast<int64_t>(ordinal - part.first);
  if (part.shard->id_type() == collection::IdType::kInt64) return std::to_string(part.shard->int_id(local));
  return std::string(part.shard->string_id(local));
}

std::vector<float> ScoredCollection::Rows(uint64_t ordinal, int64_t max_tokens) const {
  const Part& part = PartOf(ordinal);
  const DocumentsView& documents = part.shard->documents();
  const int64_t* offsets = documents.offsets + (ordinal - part.first);
  const auto columns = static_cast<size_t>(documents.dim);
  std::vector<float> rows(static_cast<size_t>(std::min(max_tokens, offsets[1] - offsets[0])) * columns);
  const int64_t row_bytes = RowBytes(documents.type, documents.dim);
  const char* source = static_cast<const char*>(documents.tokens) + offsets[0] * row_bytes;
  if (IsResidual(documents.type)) {
    const ResidualDecoder decoder(documents.type, documents.dim, documents.codebook);
    for (size_t value = 0; value < rows.size(); value += columns, source += row_bytes) {
      decoder.DecodeRow(source, rows.data() + value);
    }
    return rows;
  }
  ConvertElements(documents.type, source, ScalarType::kF32, rows.data(), rows.size());
  return rows;
}

}  // namespace maxsim::evaluation
