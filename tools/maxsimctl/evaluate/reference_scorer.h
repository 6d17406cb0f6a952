// Computes FP64 reference scores from a collection's files on this machine, to compare the server's answers with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/manifest.h"
#include "collection/shard.h"
#include "kernels/reference.h"
#include "maxsim/v1/rerank.pb.h"
#include "tools/maxsimctl/context/input_files.h"

namespace maxsim::ctl {

class ReferenceScorer {
 public:
  // Opens the collection at `path`. Returns FAILED_PRECONDITION if it differs from `collection`, which the server
  // serves, in generation, dimension, storage or number of documents.
  static absl::StatusOr<ReferenceScorer> Open(const std::string& path, const v1::CollectionInfo& collection);

  const collection::Manifest& manifest() const { return manifest_; }

  // Returns the FP64 scores of the documents at `ordinals`, in that order; if `ordinals` is null, those of all
  // documents. Rounds the query to the collection's storage type first. Ordinals number the documents of all shards, in
  // the manifest's order.
  std::vector<ReferenceScore> Scores(const QuerySet& queries, int64_t query,
                                     const std::vector<uint64_t>* ordinals) const;

  // Returns OK if the files that Scores has read were complete and unchanged. Call it before you trust the scores.
  absl::Status Check() const;

  std::string IdText(uint64_t ordinal) const;

  // Converts a position in the server's results to an ordinal of this scorer; nullopt if no document has the position.
  // In a partition, positions are those of the whole collection before it was split.
  std::optional<uint64_t> OrdinalAt(uint64_t position) const;

 private:
  // Returns the index of the shard that holds a document, and the document's ordinal in that shard.
  std::pair<size_t, uint32_t> Locate(uint64_t ordinal) const;

  collection::Manifest manifest_;
  std::vector<std::shared_ptr<const collection::Shard>> shards_;
  std::vector<uint64_t> first_;  // ordinal of each shard's first document, then the number of all documents
};

}  // namespace maxsim::ctl
