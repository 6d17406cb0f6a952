// One shard file, opened for reading.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/maxsim.h"
#include "server/shard/manifest.h"

namespace maxsim::shard {

// How a shard's bytes are held while it is open.
enum class Access {
  kMapped,  // memory-mapped, read on demand; the file must not be changed or truncated while it is open
  kCopied,  // read whole into memory; the file is closed again
};

// An immutable shard: token matrices, ids, payloads. Every offset and id has been checked on opening, so that accessors
// cannot leave the file. Thread-safe. Token values are not looked at (see verifier.h).
class Shard {
 public:
  // Opens `folder`/`entry.file` and checks it against the entry and the manifest: sizes, counts, types. With
  // `check_checksum` the whole file is read and hashed, and a difference is DATA_LOSS. NOT_FOUND, or DATA_LOSS naming
  // the file, the field, the value and what was expected.
  // UNAVAILABLE once `stop` (may be null) is set, which is looked at between blocks that are read or hashed.
  static absl::StatusOr<std::shared_ptr<const Shard>> Open(const std::string& folder, const Manifest& manifest,
                                                           const ShardEntry& entry, Access access, bool check_checksum,
                                                           const std::atomic<bool>* stop = nullptr);
  ~Shard();
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Valid as long as the shard lives. Tokens are 64-byte aligned.
  const DocumentsView& documents() const;

  IdType id_type() const;
  // Only for the matching id type; `ordinal` < documents().num_documents.
  std::string_view string_id(int64_t ordinal) const;
  int64_t int_id(int64_t ordinal) const;

  // The document's payload, a JSON object, or "" where it has none.
  std::string_view payload(int64_t ordinal) const;

  const std::string& path() const;
  int64_t num_bytes() const;  // of the file

 private:
  struct State;
  explicit Shard(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::shard
