#include "collection/build/shard_plan.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "collection/codes/code_file.h"
#include "collection/formats/safetensors.h"
#include "collection/shard_contents.h"
#include "kernels/limits.h"

namespace maxsim::collection {
namespace {

std::string_view SafetensorsName(ScalarType storage) {
  switch (storage) {
    case ScalarType::kF16:
      return "F16";
    case ScalarType::kBF16:
      return "BF16";
    case ScalarType::kF32:
      return "F32";
    case ScalarType::kI8:
      return "I8";
    case ScalarType::kResidual1:
    case ScalarType::kResidual2:
    case ScalarType::kResidual4:
    case ScalarType::kResidual8:
      break;  // Python's CollectionWriter writes them
  }
  return "?";
}

}  // namespace

std::vector<ShardPlan> PlanShards(const Catalog& catalog, const DocumentList& documents, const ShardLayout& layout,
                                  int64_t max_shard_bytes) {
  const auto with = [&](ShardPlan plan, int64_t document) {
    plan.num_documents += 1;
    plan.num_tokens += catalog.lengths[static_cast<size_t>(document)];
    if (layout.id_type == IdType::kString) plan.id_bytes += catalog.ids.num_bytes(document);
    if (catalog.has_payloads()) plan.payload_bytes += catalog.payload_sizes[static_cast<size_t>(document)];
    plan.num_bytes = ShardFileBytes(plan, layout);
    return plan;
  };
  std::vector<ShardPlan> plans;
  for (int64_t idx = 0; idx < documents.size; ++idx) {
    if (!plans.empty() && plans.back().num_documents < kMaxShardDocuments) {
      const ShardPlan larger = with(plans.back(), documents[idx]);
      if (larger.num_bytes <= max_shard_bytes) {
        plans.back() = larger;
        continue;
      }
    }
    plans.push_back(with(ShardPlan{.first_document = idx}, documents[idx]));
  }
  return plans;
}

int64_t ShardFileBytes(const ShardPlan& plan, const ShardLayout& layout) {
  constexpr auto kWord = static_cast<int64_t>(sizeof(int64_t));
  // The header is padded to kWriterAlignment. It names at most eight tensors, so it is always shorter than that.
  int64_t bytes = kWriterAlignment + plan.num_tokens * layout.dim * static_cast<int64_t>(SizeOf(layout.storage));
  bytes += (plan.num_documents + 1) * kWord;
  if (layout.has_ordinals) bytes += plan.num_documents * kWord;
  bytes +=
      layout.id_type == IdType::kInt64 ? plan.num_documents * kWord : (plan.num_documents + 1) * kWord + plan.id_bytes;
  if (layout.has_payloads) bytes += (plan.num_documents + 1) * kWord + plan.payload_bytes;
  if (layout.storage == ScalarType::kI8) bytes += plan.num_documents * static_cast<int64_t>(sizeof(float));
  return bytes;
}

std::string FormatShardHeader(const ShardPlan& plan, const ShardLayout& layout) {
  std::vector<SafetensorsTensor> tensors;
  const auto add = [&](std::string_view name, std::string_view dtype, std::vector<int64_t> shape) {
    tensors.push_back({std::string(name), std::string(dtype), std::move(shape), 0, 0});
  };
  // The tokens come first, so that they are aligned. Then come tensors with elements of 8 bytes, of 4 bytes and of 1
  // byte.
  add(kTokens, SafetensorsName(layout.storage), {plan.num_tokens, layout.dim});
  add(kOffsets, "I64", {plan.num_documents + 1});
  if (layout.has_ordinals) add(kOrdinals, "I64", {plan.num_documents});
  if (layout.id_type == IdType::kInt64) {
    add(kIds, "I64", {plan.num_documents});
  } else {
    add(kIdOffsets, "I64", {plan.num_documents + 1});
  }
  if (layout.has_payloads) add(kPayloadOffsets, "I64", {plan.num_documents + 1});
  std::vector<std::pair<std::string, std::string>> metadata = {{"format", std::string(kShardFormat)},
                                                               {"format_version", std::string(kShardFormatVersion)}};
  if (layout.storage == ScalarType::kI8) {
    add(kScales, "F32", {plan.num_documents});
    metadata.emplace_back(kRotationKey, kRotationKind);
    metadata.emplace_back(kRotationSeedKey, Cat(layout.rotation_seed));
  }
  if (layout.id_type == IdType::kString) add(kIdBytes, "U8", {plan.id_bytes});
  if (layout.has_payloads) add(kPayloadBytes, "U8", {plan.payload_bytes});
  return FormatSafetensorsHeader(metadata, tensors, kWriterAlignment);
}

std::string ShardFileName(int64_t generation, int64_t index) {
  return Cat(absl::StrFormat("shard-%06d-%05d", generation, index), ".safetensors");
}

std::string FieldFileName(int64_t generation, int64_t index) {
  return Cat(absl::StrFormat("fields-%06d-%05d", generation, index), ".safetensors");
}

std::string CodeFileName(int64_t generation, int64_t index, size_t file) {
  return Cat(absl::StrFormat("codes-%06d-%05d-", generation, index), PlaneName(file), ".safetensors");
}

}  // namespace maxsim::collection
