// The limits of the messages of a snapshot (ReadSnapshotResponse in admin.proto), and the checksum of its files. Both
// the sender and the receiver use them.
#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace maxsim::service {

// SnapshotBegin.format_version of this program. It reads this and 0 (means 1).
inline constexpr uint32_t kSnapshotFormatVersion = 1;

// Maximum number of file bytes in one message. At this size the cost per message is negligible. A sender and a receiver
// that each hold two messages take 4 MiB together.
inline constexpr size_t kMaxSnapshotDataBytes = size_t{1} << 20;

// The maximum number of files of a snapshot: kMaxShards shards with four files of codes and fields each, and the log.
inline constexpr size_t kMaxSnapshotFiles = 600'000;

// Computes XXH3 (64 bits, seed 0) over a stream of bytes.
class SnapshotHash {
 public:
  SnapshotHash() : state_(XXH3_createState()) {
    if (state_ == nullptr) throw std::bad_alloc();
    Reset();
  }
  void Reset() { XXH3_64bits_reset(state_.get()); }
  void Update(const void* data, size_t count) { XXH3_64bits_update(state_.get(), data, count); }
  uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, FreeState> state_;
};

}  // namespace maxsim::service
