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

// Immutable and thread-safe. Ids are not copied: the index is an open-addressing table of 12 bytes a document that
// refers to the shards' own bytes, and holds on to the shards.
class IdIndex {
 public:
  // Numbers documents through `shards` in order. DATA_LOSS naming the id and both places when one stands twice.
  static absl::StatusOr<IdIndex> Build(absl::Span<const std::shared_ptr<const shard::Shard>> shards);

  IdIndex(IdIndex&&) noexcept;
  IdIndex& operator=(IdIndex&&) noexcept;
  ~IdIndex();

  std::optional<uint64_t> Find(std::string_view id) const;  // string collections
  std::optional<uint64_t> Find(int64_t id) const;           // int64 collections
  size_t num_bytes() const;                                 // host memory it takes

  // Host memory the index of that many documents takes, known before it is built.
  static uint64_t NumBytes(uint64_t num_documents);

 private:
  struct State;
  explicit IdIndex(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::store
