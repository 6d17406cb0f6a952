// Document id -> collection ordinal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/shard/shard.h"

namespace maxsim::store {

// Immutable and thread-safe. String ids are not copied: the index refers to the shards' bytes, which must outlive it.
class IdIndex {
 public:
  // Numbers documents through `shards` in order. DATA_LOSS naming the id when one stands twice.
  static absl::StatusOr<IdIndex> Build(absl::Span<const std::shared_ptr<const shard::Shard>> shards);

  IdIndex(IdIndex&&) noexcept;
  IdIndex& operator=(IdIndex&&) noexcept;
  ~IdIndex();

  std::optional<uint64_t> Find(std::string_view id) const;  // string collections
  std::optional<uint64_t> Find(int64_t id) const;           // int64 collections
  size_t num_bytes() const;                                 // host memory it takes

 private:
  struct State;
  explicit IdIndex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::store
