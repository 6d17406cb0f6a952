// Counts documents by the values of a field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "server/store/collection/collection.h"

namespace maxsim::store {

struct Facets {
  struct Value {
    std::string value;
    uint64_t count = 0;  // documents that have it
  };
  std::vector<Value> values;   // by descending count, then by value (byte order)
  uint64_t num_values = 0;     // different values of these documents, including those beyond the limit
  uint64_t num_documents = 0;  // that were examined, with or without a value
};

// Counts, for each value of a field, how many documents of `matching` have the value; if `matching` is null, how many
// of all documents that are alive. The field must be declared and of kind keyword or keywords. Returns the values with
// the highest counts, at most `limit`, which must not be 0. `matching` must have been found in this snapshot. Takes
// time in proportion to the values of all documents, not only of those in `matching`. `check` (may be null) is called
// now and then; its error ends the count and is returned.
absl::StatusOr<Facets> CountFacets(const Collection& collection, std::string_view field,
                                   const MatchingDocuments* matching, size_t limit, const StopCheck& check = nullptr);

}  // namespace maxsim::store
