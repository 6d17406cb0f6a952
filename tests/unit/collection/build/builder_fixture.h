// A collection for tests of builds.
#pragma once

#include "base/text.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {

// Returns `count` documents of 1 .. 20 tokens.
inline SmallCollection NumberedCollection(int count) {
  SmallCollection collection;
  collection.id_type = IdType::kInt64;
  collection.lengths.clear();
  collection.int_ids.clear();
  for (int idx = 0; idx < count; ++idx) {
    collection.lengths.push_back(1 + idx * 7 % 20);
    collection.int_ids.push_back(1000 - idx);
    collection.payloads.push_back(idx % 3 == 0 ? "" : Cat("{\"n\":", idx, "}"));
  }
  return collection;
}

}  // namespace maxsim::collection
