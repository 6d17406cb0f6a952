#include "server/service/request/inline_collections.h"

#include <utility>

#include "server/store/collection/generation.h"
#include "server/store/collection/id_index.h"

namespace maxsim::service {

absl::StatusOr<std::shared_ptr<const store::Collection>> InlineCollections::For(int32_t dim) {
  const MutexLock lock(&mutex_);
  std::shared_ptr<const store::Collection>& collection = by_dim_[dim];
  if (collection != nullptr) return collection;
  absl::StatusOr<store::IdIndex> index = store::IdIndex::Build({});
  if (!index.ok()) return index.status();
  collection::Manifest manifest;
  manifest.dim = dim;
  store::Generation::Contents contents{.name = "",
                                       .path = "",
                                       .manifest = std::move(manifest),
                                       .parts = {},
                                       .index = *std::move(index),
                                       .on_gpu = false,
                                       .loaded_at = absl::UnixEpoch(),
                                       .tombstones = {}};
  collection =
      std::make_shared<const store::Collection>(std::make_shared<const store::Generation>(std::move(contents)));
  return collection;
}

}  // namespace maxsim::service
