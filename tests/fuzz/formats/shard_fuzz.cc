// Fuzzes a shard file. All bytes of an accepted file must be readable, and every document must be within the limits.
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "collection/positions.h"
#include "collection/shard_contents.h"
#include "kernels/limits.h"
#include "kernels/maxsim.h"
#include "kernels/residual_codes.h"
#include "tests/fuzz/formats/aligned_copy.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

void CheckDocuments(const collection::ShardContents& contents) {
  const DocumentsView documents = contents.documents();
  Require(ValidateDocuments(documents).ok(), "the documents have a backend's shape");
  uint64_t sum = 0;
  const auto add = [&sum](std::string_view text) {
    for (const char c : text) sum += static_cast<unsigned char>(c);
  };
  add({static_cast<const char*>(documents.tokens),
       static_cast<size_t>(documents.num_tokens() * RowBytes(documents.type, documents.dim))});
  if (IsResidual(documents.type)) {
    // Any bytes in the rows must decode to finite vectors.
    const ResidualDecoder decoder(documents.type, documents.dim, documents.codebook);
    std::vector<float> vector(static_cast<size_t>(documents.dim));
    decoder.DecodeRow(documents.tokens, vector.data());
    for (const float value : vector) Require(std::isfinite(value), "a decoded value is finite");
  }
  int64_t least_ordinal = 0;
  for (int64_t idx = 0; idx < documents.num_documents; ++idx) {
    if (contents.has_ordinals) {
      const int64_t ordinal = contents.ordinals[idx];
      Require(ordinal >= least_ordinal && ordinal <= collection::kMaxPosition, "ordinals ascend");
      least_ordinal = ordinal + 1;
    }
    if (documents.scales != nullptr) {
      Require(documents.scales[idx] >= 0 && documents.scales[idx] <= collection::kMaxScale, "a scale is in range");
    }
    if (contents.id_type == collection::IdType::kInt64) {
      sum += static_cast<uint64_t>(contents.ids[idx]);
    } else {
      const std::string_view id = contents.string_id(idx);
      Require(!id.empty() && id.size() <= kMaxIdBytes && IsUtf8(id), "an id is in range");
      add(id);
    }
    Require(IsUtf8(contents.payload(idx)), "a payload is UTF-8");
    add(contents.payload(idx));
  }
  volatile uint64_t sink = sum;
  static_cast<void>(sink);
}

void FuzzShard(std::string_view input) {
  const std::unique_ptr<char, FreeMemory> bytes = AlignedCopy(input, collection::kTokenAlignment);
  const absl::StatusOr<collection::ShardContents> contents = collection::ParseShard({bytes.get(), input.size()});
  if (!contents.ok()) return RequireRefusal(contents.status());
  CheckDocuments(*contents);
}

const Registration kShardTarget("shard", &FuzzShard);

}  // namespace
}  // namespace maxsim::fuzz
