// The values of the fields of a part's documents, by which filters find them.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "collection/field.h"
#include "collection/fields/field_file.h"
#include "collection/filters/field_index.h"

namespace maxsim::store {

// Immutable, and so thread-safe. Generations that share a part share its fields, so that these keep their declarations.
class PartFields {
 public:
  // Copies what it needs out of the columns, one for each field, which all have `num_documents`.
  PartFields(std::vector<collection::Field> fields, const std::vector<collection::FieldColumn>& columns,
             int64_t num_documents)
      : fields_(std::move(fields)), index_(fields_, columns, num_documents), memory_bytes_(index_.memory_bytes()) {}
  PartFields(const PartFields&) = delete;
  PartFields& operator=(const PartFields&) = delete;

  const collection::ShardIndex& index() const { return index_; }
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  const std::vector<collection::Field> fields_;
  const collection::ShardIndex index_;  // refers to fields_
  const int64_t memory_bytes_;
};

}  // namespace maxsim::store
