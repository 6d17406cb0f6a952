#include "collection/evaluation/codes_comparison.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/text.h"
#include "collection/codes/shard_codes.h"
#include "collection/evaluation/rank_agreement.h"
#include "collection/shard.h"
#include "kernels/codes/query_codes.h"
#include "kernels/codes/scan.h"
#include "kernels/cpu/codes/code_scanner.h"
#include "kernels/cpu/loops/isa.h"
#include "kernels/limits.h"
#include "kernels/rank_order.h"
#include "kernels/scalar_type.h"
#include "kernels/thread_pool.h"

namespace maxsim::evaluation {
namespace {

// Carries out one call of CompareCodes, step by step.
class CodesComparer {
 public:
  CodesComparer(const std::string& folder, ScoredCollection& exact, const CodesComparisonOptions& options)
      : folder_(folder), exact_(exact), options_(options), pool_(options.num_threads) {}

  absl::StatusOr<CodesComparison> Run();

 private:
  // A shard's documents and their codes.
  struct Part {
    std::shared_ptr<collection::Shard> shard;
    std::shared_ptr<collection::ShardCodes> codes;
    uint64_t first = 0;  // ordinal
  };

  absl::Status Check();
  absl::Status OpenParts();
  absl::Status CompareQuery(int64_t query);
  absl::StatusOr<std::vector<ScoredDocument>> Scan(const QueryCodes& codes, ScanOrder order);
  absl::StatusOr<std::vector<ScoredDocument>> Refine(int64_t query, const std::vector<ScoredDocument>& scanned);

  const std::string& folder_;
  ScoredCollection& exact_;
  const CodesComparisonOptions& options_;
  ThreadPool pool_;
  CodeScanner scanner_{*cpu::AvailableIsas().front(), pool_};
  std::vector<Part> parts_;
  CodesComparison result_;
};

absl::Status CodesComparer::Check() {
  const collection::Manifest& manifest = exact_.manifest();
  if (!manifest.codes.has_value()) {
    return absl::FailedPreconditionError(Cat(folder_, ": has no codes; make them with maxsim-shard encode"));
  }
  if (options_.queries->dim() != manifest.dim) {
    return Invalid("the queries' dimension is ", options_.queries->dim(), ", the collection's ", manifest.dim);
  }
  const auto default_refined =
      static_cast<int32_t>(std::min<int64_t>(DefaultRefinedDocuments(options_.top_k), kMaxTopK));
  const int32_t refined = options_.num_refined > 0 ? options_.num_refined : default_refined;
  if (options_.top_k < 1 || refined < options_.top_k || refined > kMaxTopK) {
    return Invalid("refined documents: ", refined, " for the top ", options_.top_k, "; must be ",
                   std::max(options_.top_k, 1), " to ", kMaxTopK);
  }
  result_.top_k = static_cast<int32_t>(std::min<int64_t>(options_.top_k, manifest.num_documents));
  result_.num_refined = static_cast<int32_t>(std::min<int64_t>(refined, manifest.num_documents));
  for (int planes = 1; planes <= manifest.codes->planes; planes *= 2) {
    result_.planes.push_back({.planes = planes, .least_recall = 1});
  }
  return absl::OkStatus();
}

absl::Status CodesComparer::OpenParts() {
  const collection::Manifest& manifest = exact_.manifest();
  uint64_t first = 0;
  for (const collection::ShardEntry& entry : manifest.shards) {
    absl::StatusOr<std::shared_ptr<collection::Shard>> shard =
        collection::Shard::Open(folder_, manifest, entry, collection::Access::kMapped, /*check_checksum=*/false);
    if (!shard.ok()) return shard.status();
    absl::StatusOr<std::shared_ptr<collection::ShardCodes>> codes =
        collection::ShardCodes::Open(folder_, manifest, entry, manifest.codes->planes, collection::Access::kMapped,
                                     /*check_checksum=*/false);
    if (!codes.ok()) return codes.status();
    parts_.push_back({*std::move(shard), *std::move(codes), first});
    first += static_cast<uint64_t>(entry.num_documents);
  }
  return absl::OkStatus();
}

// Returns the best documents of all shards by their codes.
absl::StatusOr<std::vector<ScoredDocument>> CodesComparer::Scan(const QueryCodes& codes, ScanOrder order) {
  const ScanQuery query{.codes = &codes, .num_results = result_.num_refined, .order = order};
  std::vector<ScoredDocument> best;
  for (const Part& part : parts_) {
    std::vector<Scored> found;
    const CodesView view = part.codes->view(part.shard->documents());
    if (absl::Status status = scanner_.Scan(view, {&query, 1}, {&found, 1}); !status.ok()) return status;
    if (absl::Status status = part.codes->Check(); !status.ok()) return status;
    const auto middle = static_cast<ptrdiff_t>(best.size());
    for (const Scored& scored : found) best.push_back({part.first + scored.position, scored.score});
    std::inplace_merge(best.begin(), best.begin() + middle, best.end(), RanksBefore);
    if (best.size() > static_cast<size_t>(result_.num_refined)) best.resize(static_cast<size_t>(result_.num_refined));
  }
  return best;
}

// Returns the best `top_k` of documents by their exact scores.
absl::StatusOr<std::vector<ScoredDocument>> CodesComparer::Refine(int64_t query,
                                                                  const std::vector<ScoredDocument>& scanned) {
  std::vector<uint64_t> ordinals;
  ordinals.reserve(scanned.size());
  for (const ScoredDocument& one : scanned) ordinals.push_back(one.position);
  std::sort(ordinals.begin(), ordinals.end());
  const absl::StatusOr<std::vector<float>> scores = exact_.Scores(*options_.queries, query, ordinals);
  if (!scores.ok()) return scores.status();
  std::vector<ScoredDocument> refined;
  for (size_t idx = 0; idx < ordinals.size(); ++idx) refined.push_back({ordinals[idx], (*scores)[idx]});
  std::sort(refined.begin(), refined.end(), RanksBefore);
  refined.resize(std::min(refined.size(), static_cast<size_t>(result_.top_k)));
  return refined;
}

std::vector<uint64_t> PositionsOf(const std::vector<ScoredDocument>& documents) {
  std::vector<uint64_t> positions;
  positions.reserve(documents.size());
  for (const ScoredDocument& document : documents) positions.push_back(document.position);
  return positions;
}

absl::Status CodesComparer::CompareQuery(int64_t query) {
  const absl::StatusOr<std::vector<ScoredDocument>> exact = exact_.TopK(*options_.queries, query, result_.top_k);
  if (!exact.ok()) return exact.status();
  const std::vector<uint64_t> expected = PositionsOf(*exact);
  const collection::Manifest& manifest = exact_.manifest();
  const std::string rounded = options_.queries->Rounded(query, QueryType(manifest.storage));
  std::vector<float> tokens(static_cast<size_t>(options_.queries->num_tokens(query)) *
                            static_cast<size_t>(manifest.dim));
  ConvertElements(QueryType(manifest.storage), rounded.data(), ScalarType::kF32, tokens.data(), tokens.size());
  for (PlanesAgreement& agreement : result_.planes) {
    const absl::StatusOr<QueryCodes> codes = EncodeQuery(CodeShapeOf(manifest), agreement.planes, tokens, {});
    if (!codes.ok()) return codes.status();
    const absl::StatusOr<std::vector<ScoredDocument>> scanned = Scan(*codes, ScanOrder::kEstimate);
    if (!scanned.ok()) return scanned.status();
    const absl::StatusOr<std::vector<ScoredDocument>> found = Refine(query, *scanned);
    if (!found.ok()) return found.status();
    const std::vector<uint64_t> positions = PositionsOf(*found);
    const double recall = Overlap(expected, positions);
    agreement.mean_recall += recall;
    agreement.least_recall = std::min(agreement.least_recall, recall);
    agreement.num_same += positions == expected ? 1 : 0;
    const absl::StatusOr<std::vector<ScoredDocument>> bounded = Scan(*codes, ScanOrder::kUpperBound);
    if (!bounded.ok()) return bounded.status();
    const absl::StatusOr<std::vector<ScoredDocument>> proven = Refine(query, *bounded);
    if (!proven.ok()) return proven.status();
    // A document that the scan left out has at most the upper bound of the last document that the scan returned. So the
    // top k are proven if their lowest exact score is above that bound, or if no document was left out.
    const bool has_all = static_cast<int64_t>(bounded->size()) == manifest.num_documents;
    agreement.num_proven += has_all || proven->back().score > bounded->back().score ? 1 : 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<CodesComparison> CodesComparer::Run() {
  if (absl::Status status = Check(); !status.ok()) return status;
  if (absl::Status status = OpenParts(); !status.ok()) return status;
  const int64_t there = options_.queries->size();
  result_.num_queries = options_.sample > 0 ? std::min(options_.sample, there) : there;
  if (parts_.empty() || result_.num_queries == 0) return std::move(result_);
  for (int64_t query = 0; query < result_.num_queries; ++query) {
    if (absl::Status status = CompareQuery(query); !status.ok()) return status;
    if (options_.observer == nullptr) continue;
    if (absl::Status status = options_.observer(query + 1, result_.num_queries); !status.ok()) return status;
  }
  for (PlanesAgreement& agreement : result_.planes) {
    agreement.mean_recall /= static_cast<double>(result_.num_queries);
  }
  return std::move(result_);
}

}  // namespace

absl::StatusOr<CodesComparison> CompareCodes(const std::string& folder, ScoredCollection& exact,
                                             const CodesComparisonOptions& options) {
  return CodesComparer(folder, exact, options).Run();
}

}  // namespace maxsim::evaluation
