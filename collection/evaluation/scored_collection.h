// Scores a collection's files directly with a backend, without a server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/evaluation/query_set.h"
#include "collection/manifest.h"
#include "collection/shard.h"
#include "kernels/maxsim.h"

namespace maxsim::evaluation {

struct ScoredDocument {
  uint64_t position = 0;  // its ordinal in the collection: through the shards, in manifest order
  float score = 0;
};

// A collection whose files are memory-mapped. Not thread-safe.
class ScoredCollection {
 public:
  // `backend` must outlive the object. Does not verify checksums.
  static absl::StatusOr<ScoredCollection> Open(const std::string& folder, Backend* backend);

  const collection::Manifest& manifest() const { return manifest_; }

  // Returns the best `k` (1 .. kMaxTopK) documents for `queries`[`query`], in rank order. Rounds the query's values as
  // a server does.
  absl::StatusOr<std::vector<ScoredDocument>> TopK(const QuerySet& queries, int64_t query, int32_t k);

  // Returns a score for each document in `ordinals`, which must be distinct and ascending, and at most kMaxTopK in
  // number.
  absl::StatusOr<std::vector<float>> Scores(const QuerySet& queries, int64_t query,
                                            absl::Span<const uint64_t> ordinals);

  std::string IdText(uint64_t ordinal) const;

  // Returns the first `max_tokens` token vectors of a document, in FP32: [.., dim]. Must not be called for i8
  // collections, whose vectors are rotated.
  std::vector<float> Rows(uint64_t ordinal, int64_t max_tokens) const;

 private:
  struct Part {
    std::shared_ptr<const collection::Shard> shard;
    std::unique_ptr<Documents> documents;
    uint64_t first = 0;  // ordinal
  };

  const Part& PartOf(uint64_t ordinal) const;
  // Scores a query against the documents `ordinals` of one part, or against all of them if `ordinals` is null.
  absl::StatusOr<std::vector<Scored>> Run(const Part& part, const QuerySet& queries, int64_t query,
                                          const std::vector<uint32_t>* ordinals, int32_t k);

  collection::Manifest manifest_;
  std::vector<Part> parts_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace maxsim::evaluation
