// An index of the field values of a part's documents, for filters.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/field.h"
#include "collection/fields/field_file.h"
#include "collection/filters/field_index.h"
#include "collection/filters/filter.h"
#include "collection/filters/ordinal_bitmap.h"

namespace maxsim::store {

class SlotReader;

// Immutable and thread-safe. Two generations that share a part also share this object, which therefore has its own copy
// of the field declarations.
//
// The documents are divided into blocks, and each block has an index. A shard is one block. A segment adds blocks while
// it grows, and merges small blocks into larger ones. Sizes are chosen so that each document is indexed only a few
// times.
class PartFields {
 public:
  // Indexes the fields of a shard with `num_documents` documents. `columns` has one element per field, and is copied.
  PartFields(std::vector<collection::Field> fields, const std::vector<collection::FieldColumn>& columns,
             int64_t num_documents);
  // Makes the fields of a segment without documents.
  explicit PartFields(std::vector<collection::Field> fields);

  // Returns an index of the documents so far and of the next `count` documents. `payload_of` returns the payload of the
  // document with an ordinal. It is also called for earlier documents if their blocks are merged with the new one.
  // Returns INVALID_ARGUMENT, naming field and value, if a payload does not fit (FieldReader::Read).
  absl::StatusOr<std::shared_ptr<const PartFields>> With(
      int64_t count, absl::FunctionRef<std::string_view(uint32_t)> payload_of) const;

  int64_t num_documents() const { return num_documents_; }
  // Returns the ordinals of the documents that match (collection::EvaluateFilter). `slots` finds the documents that an
  // in_slots of the filter matches; it may be null if the filter has none.
  absl::StatusOr<collection::OrdinalBitmap> Evaluate(const collection::Filter& filter, const StopCheck& check = nullptr,
                                                     SlotReader* slots = nullptr) const;
  // Calls `take` with each block: the index of the documents of the block, and the ordinal that the first of them has
  // in the part.
  void ForEachBlock(absl::FunctionRef<void(const collection::ShardIndex& index, uint32_t first)> take) const;
  int64_t memory_bytes() const { return memory_bytes_; }

  // Returns an upper bound of the memory_bytes of a segment's fields, if its documents' collection::MaxIndexBytes sum
  // up to `document_bytes`.
  static int64_t MaxSegmentBytes(size_t num_fields, int64_t num_documents, int64_t document_bytes);

 private:
  using Fields = std::shared_ptr<const std::vector<collection::Field>>;
  struct Block {
    uint32_t first = 0;  // ordinal in the part
    std::shared_ptr<const collection::ShardIndex> index;
    int64_t memory_bytes = 0;
  };

  PartFields(Fields fields, std::vector<Block> blocks, int64_t num_documents);
  static Block BlockOf(int64_t first, std::shared_ptr<const collection::ShardIndex> index);

  const Fields fields_;  // the indexes refer to it
  const std::vector<Block> blocks_;
  const int64_t num_documents_;
  const int64_t memory_bytes_;
};

}  // namespace maxsim::store
