// Opens one shard file for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/manifest.h"
#include "kernels/maxsim.h"

namespace maxsim {
class Folder;
class InputFile;
}  // namespace maxsim

namespace maxsim::collection {

// Returns DATA_LOSS, naming the file, unless its size is that of the entry.
absl::Status CheckSize(const InputFile& file, const ShardEntry& entry);

// How a shard's bytes are held while it is open.
enum class Access {
  kMapped,  // tokens are mapped and read on demand, and the file stays open; everything else is read into memory
  kCopied,  // the whole file is read into memory, and then closed
};

// Direct access to a shard's ids, for callers that read many. `ints` is set for int64 ids, the other members for string
// ids.
struct ShardIds {
  const int64_t* ints = nullptr;     // [num_documents]
  const int64_t* offsets = nullptr;  // [num_documents + 1]: id n is bytes offsets[n] .. offsets[n + 1]
  const char* bytes = nullptr;
  int64_t size = 0;  // bytes of every string id if all have the same length, otherwise 0
};

// An immutable shard: token matrices, ids, payloads. Open checks every offset and id, so accessors cannot read outside
// the file. It does not check token values (see verifier.h). The class is thread-safe.
//
// Files must not be changed while they are mapped. If one is changed anyway, readers may see other token values, but no
// other harm is done: ids, offsets and payloads are copies, the tokens of a truncated or unreadable file become zeros
// (mapping_guard.h), and Check() reports the change.
class Shard final : public MemorySource {
 public:
  // Opens `folder`/`entry.file` and checks it against the entry and the manifest: sizes, counts, types. With
  // `check_checksum`, also reads and hashes the whole file. Returns NOT_FOUND, DATA_LOSS (naming the file, the field,
  // the value and the expected value), or the system's error if the file cannot be read. Checks `stop` (may be null)
  // after each block of work, and returns its status if it is stopped. Never takes more memory than the entry says: if
  // the file needs more, returns DATA_LOSS before reading it. Opens one descriptor; with kMapped it stays open.
  static absl::StatusOr<std::shared_ptr<Shard>> Open(const Folder& folder, const Manifest& manifest,
                                                     const ShardEntry& entry, Access access, bool check_checksum,
                                                     const StopSignal* stop = nullptr);
  static absl::StatusOr<std::shared_ptr<Shard>> Open(const std::string& folder, const Manifest& manifest,
                                                     const ShardEntry& entry, Access access, bool check_checksum);
  ~Shard() override;
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // The view is valid as long as the shard lives. Tokens are 64-byte aligned.
  const DocumentsView& documents() const;

  IdType id_type() const;
  // Call only the function of the shard's id type. `ordinal` must be below documents().num_documents.
  std::string_view string_id(int64_t ordinal) const;
  int64_t int_id(int64_t ordinal) const;
  ShardIds ids() const;  // valid as long as the shard lives

  // If the collection is a partition, returns each document's position in the whole collection (positions.h):
  // [num_documents], strictly ascending, valid as long as the shard lives. Otherwise returns null.
  const int64_t* ordinals() const;

  // Returns the document's payload, a JSON object, or "" if it has none.
  std::string_view payload(int64_t ordinal) const;

  // Returns OK if all tokens read so far came from the unchanged file. Returns DATA_LOSS, naming the file, if it was
  // written to or cannot be read. Always OK for kCopied.
  absl::Status Check() const override;

  // Copies token bytes. With kMapped reads them from the file. Returns DATA_LOSS, naming the file, if it cannot be
  // read.
  absl::Status Read(const void* from, size_t num_bytes, void* to) const override;

  // Returns the stored rows of one document, [tokens, dim]. `ordinal` must be below documents().num_documents. After
  // ReleaseTokens, opens the file at path() again to read them, and returns FAILED_PRECONDITION if the file is gone or
  // was replaced. Returns DATA_LOSS if the file cannot be read, or if Check() would.
  absl::StatusOr<std::vector<std::byte>> ReadDocument(int64_t ordinal) const;

  // Only for kMapped: unmaps and closes the file. After this call documents().tokens is null, and Check() returns OK.
  // Use it when a backend has its own copy of the tokens, and before the shard is shared between threads.
  void ReleaseTokens();

  // Returns the bytes of the whole file, which include the tokens at documents().tokens. Valid until ReleaseTokens, and
  // as long as the shard lives. For callers that hash the bytes while they copy them.
  std::string_view bytes() const;

  const std::string& path() const;
  int64_t num_bytes() const;  // of the file
  // Returns the bytes of host memory that this object holds: the whole file for kCopied, everything except the tokens
  // for kMapped.
  int64_t host_bytes() const;

 private:
  struct State;
  explicit Shard(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::collection
