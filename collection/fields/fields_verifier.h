// Compares stored field values with the payloads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collection/field.h"
#include "collection/fields/field_file.h"
#include "collection/shard.h"

namespace maxsim::collection {

// A document whose stored value of a field is wrong; `what` describes the first such field.
struct WrongField {
  int64_t document = 0;
  std::string what;  // "field \"year\": 2019 is stored, but the payload has 2020"
};

struct WrongFields {
  int64_t num_documents = 0;          // that have a wrong value
  std::vector<WrongField> documents;  // the first `max_kept` of them, ascending
};

// Reads the fields from every payload of the shard again and compares them with `columns`. Skips malformed payloads,
// because collection/inspection/verifier.h reports them.
WrongFields FindWrongFields(const std::vector<Field>& fields, const std::vector<FieldColumn>& columns,
                            const Shard& shard, size_t max_kept);

}  // namespace maxsim::collection
