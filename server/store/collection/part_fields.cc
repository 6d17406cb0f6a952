#include "server/store/collection/part_fields.h"

#include <numeric>
#include <string>
#include <utility>

#include "collection/fields/field_file_maker.h"
#include "collection/filters/evaluate.h"
#include "server/store/collection/slot_masks.h"

namespace maxsim::store {
namespace {

using collection::ShardIndex;

// A segment merges blocks only if they have at most this many documents together. Indexing a block of this size takes
// the writing thread about 10 ms.
constexpr int64_t kMaxBlockDocuments = 4096;

// A segment has at most kSmallBlocks blocks, plus one per kDocumentsPerBlock documents. This follows from the rule for
// merging: of two neighbouring blocks, either the first has more than twice as many documents as the second, or both
// together have more than kMaxBlockDocuments.
constexpr int64_t kSmallBlocks = 14;
constexpr int64_t kDocumentsPerBlock = 256;

// Indexes the documents first .. end - 1.
absl::StatusOr<std::shared_ptr<const ShardIndex>> IndexOf(const std::vector<collection::Field>& fields, int64_t first,
                                                          int64_t end,
                                                          absl::FunctionRef<std::string_view(uint32_t)> payload_of) {
  collection::FieldFileMaker maker(fields);
  for (int64_t ordinal = first; ordinal < end; ++ordinal) {
    absl::Status status = maker.Add(payload_of(static_cast<uint32_t>(ordinal)));
    if (!status.ok()) return status;
  }
  const std::string file = maker.Make();
  const absl::StatusOr<std::vector<collection::FieldColumn>> columns =
      collection::ParseFieldFile(file, fields, end - first);
  if (!columns.ok()) return columns.status();
  return std::make_shared<const ShardIndex>(fields, *columns, end - first);
}

}  // namespace

PartFields::Block PartFields::BlockOf(int64_t first, std::shared_ptr<const ShardIndex> index) {
  const int64_t memory_bytes = index->memory_bytes();
  return {.first = static_cast<uint32_t>(first), .index = std::move(index), .memory_bytes = memory_bytes};
}

PartFields::PartFields(Fields fields, std::vector<Block> blocks, int64_t num_documents)
    : fields_(std::move(fields)),
      blocks_(std::move(blocks)),
      num_documents_(num_documents),
      memory_bytes_(std::accumulate(blocks_.begin(), blocks_.end(),
                                    static_cast<int64_t>(sizeof(*this) + blocks_.capacity() * sizeof(Block)),
                                    [](int64_t sum, const Block& block) { return sum + block.memory_bytes; })) {}

PartFields::PartFields(std::vector<collection::Field> fields)
    : PartFields(std::make_shared<const std::vector<collection::Field>>(std::move(fields)), {}, 0) {}

PartFields::PartFields(std::vector<collection::Field> fields, const std::vector<collection::FieldColumn>& columns,
                       int64_t num_documents)
    : fields_(std::make_shared<const std::vector<collection::Field>>(std::move(fields))),
      blocks_({BlockOf(0, std::make_shared<const ShardIndex>(*fields_, columns, num_documents))}),
      num_documents_(num_documents),
      memory_bytes_(static_cast<int64_t>(sizeof(*this) + sizeof(Block)) + blocks_.front().memory_bytes) {}

absl::StatusOr<std::shared_ptr<const PartFields>> PartFields::With(
    int64_t count, absl::FunctionRef<std::string_view(uint32_t)> payload_of) const {
  std::vector<Block> blocks = blocks_;
  const int64_t end = num_documents_ + count;
  int64_t first = num_documents_;
  while (first < end) {
    int64_t block_end = std::min(end, first + kMaxBlockDocuments);
    // Merges the new block with the blocks before it, as long as these are not much larger.
    while (!blocks.empty()) {
      const int64_t before = blocks.back().index->num_documents();
      const int64_t size = block_end - first;
      if (before > 2 * size || before + size > kMaxBlockDocuments) break;
      first = blocks.back().first;
      blocks.pop_back();
    }
    absl::StatusOr<std::shared_ptr<const ShardIndex>> index = IndexOf(*fields_, first, block_end, payload_of);
    if (!index.ok()) return index.status();
    blocks.push_back(BlockOf(first, *std::move(index)));
    first = block_end;
  }
  return std::shared_ptr<const PartFields>(new PartFields(fields_, std::move(blocks), end));
}

absl::StatusOr<collection::OrdinalBitmap> PartFields::Evaluate(const collection::Filter& filter, const StopCheck& check,
                                                               SlotReader* slots) const {
  const auto evaluate = [&](const Block& block) {
    collection::FindInSlots in_slots;
    if (slots != nullptr) {
      in_slots = [&](const collection::SlotRange& range) {
        return slots->Find(range, block.first, block.index->num_documents());
      };
    }
    return collection::EvaluateFilter(filter, *block.index, check, in_slots);
  };
  if (blocks_.size() == 1) return evaluate(blocks_.front());
  std::vector<uint32_t> ordinals;
  for (const Block& block : blocks_) {
    const absl::StatusOr<collection::OrdinalBitmap> found = evaluate(block);
    if (!found.ok()) return found.status();
    found->ForEachBlock([&](absl::Span<const uint32_t> some) {
      for (const uint32_t ordinal : some) ordinals.push_back(block.first + ordinal);
    });
  }
  return collection::OrdinalBitmap::FromSorted(ordinals);
}

void PartFields::ForEachBlock(absl::FunctionRef<void(const collection::ShardIndex& index, uint32_t first)> take) const {
  for (const Block& block : blocks_) take(*block.index, block.first);
}

int64_t PartFields::MaxSegmentBytes(size_t num_fields, int64_t num_documents, int64_t document_bytes) {
  const int64_t num_blocks = kSmallBlocks + num_documents / kDocumentsPerBlock;
  return document_bytes + static_cast<int64_t>(sizeof(PartFields)) +
         num_blocks * (static_cast<int64_t>(num_fields) * collection::kMaxIndexBytesPerField +
                       static_cast<int64_t>(sizeof(ShardIndex) + 2 * sizeof(Block)));
}

}  // namespace maxsim::store
