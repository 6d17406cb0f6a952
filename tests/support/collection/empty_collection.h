// Makes collections without a document, to tell generations apart by.
#pragma once

#include <memory>
#include <utility>

#include "server/store/collection/collection.h"
#include "server/store/collection/generation.h"
#include "server/store/collection/id_index.h"

namespace maxsim::test {

// Returns a collection of a generation of its own.
inline std::shared_ptr<const store::Collection> EmptyCollection() {
  store::Generation::Contents contents{.name = "empty",
                                       .path = "",
                                       .manifest = {},
                                       .parts = {},
                                       .index = *store::IdIndex::Build({}),
                                       .on_gpu = false,
                                       .loaded_at = {},
                                       .tombstones = {}};
  return std::make_shared<const store::Collection>(std::make_shared<const store::Generation>(std::move(contents)));
}

}  // namespace maxsim::test
