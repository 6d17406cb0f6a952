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

// How an open shard holds the bytes of its file.
enum class Access {
  kMapped,  // tokens are mapped and read on demand, and the file stays open; everything else is read into memory
  kCopied,  // the whole file is read into memory, and then closed
};

// Direct access to a shard's ids, for callers that read many. Either `ints` is set, or the members for string ids.
struct ShardIds {
  const int64_t* ints = nullptr;     // [num_documents]
  const int64_t* offsets = nullptr;  // [num_documents + 1]: id n is bytes offsets[n] .. offsets[n + 1]
  const char* bytes = nullptr;
  int64_t size = 0;  // bytes of every string id if all have the same length, otherwise 0
};

// An immutable shard: token matrices, ids, payloads. Open checks every offset and id, so that accessors cannot read
// outside the file, but not token values (see verifier.h). The class is thread-safe.
//
// Files must not be changed while they are memory-mapped. If one is changed anyway, nothing crashes, but token values
// may be wrong (zeros if the file was truncated or cannot be read): after using tokens call Check(), and discard the
// results if it fails.
class Shard final : public MemorySource {
 public:
  // Opens `folder`/`entry.file` and checks it against the entry and the manifest: sizes, counts, types and, with
  // `check_checksum`, the checksum. Returns NOT_FOUND, DATA_LOSS (naming the file, the value and the expected value),
  // or the system's error if the file cannot be read. `stop` may be null; once it is stopped, returns its status. Does
  // not take more memory than the entry says. Opens one descriptor; with kMapped it stays open.
  static absl::StatusOr<std::shared_ptr<Shard>> Open(const Folder& folder, const Manifest& manifest,
                                                     const ShardEntry& entry, Access access, bool check_checksum,
                                                     const StopSignal* stop = nullptr);
  static absl::StatusOr<std::shared_ptr<Shard>> Open(const std::string& folder, const Manifest& manifest,
                                                     const ShardEntry& entry, Access access, bool check_checksum);
  ~Shard() override;
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;

  // Returns a view of all documents, valid as long as the shard lives. Tokens are 64-byte aligned.
  const DocumentsView& documents() const;

  IdType id_type() const;
  // Return the id of a document. Call only the function of the shard's id type. `ordinal` must be below
  // documents().num_documents.
  std::string_view string_id(int64_t ordinal) const;
  int64_t int_id(int64_t ordinal) const;
  ShardIds ids() const;  // valid as long as the shard lives

  // If the collection is a partition, returns the documents' positions in the whole collection (positions.h):
  // [num_documents], strictly ascending, valid as long as the shard lives. Otherwise returns null.
  const int64_t* ordinals() const;

  // Returns the document's payload, a JSON object, or "" if it has none.
  std::string_view payload(int64_t ordinal) const;

  // Returns OK if the mapped file is unchanged since it was opened. Returns DATA_LOSS, naming the file, if it was
  // written to or a part of it could not be read. Always OK for kCopied.
  absl::Status Check() const override;

  // Copies `num_bytes` of tokens, from the address `from` in documents().tokens, to `to`. With kMapped, reads them from
  // the file. Returns DATA_LOSS, naming the file, if it cannot be read.
  absl::Status Read(const void* from, size_t num_bytes, void* to) const override;

  // Returns the stored rows (token vectors) of one document. `ordinal` must be below documents().num_documents. After
  // ReleaseTokens, opens the file at path() again, and returns FAILED_PRECONDITION if it is gone or was replaced.
  // Returns DATA_LOSS if the file cannot be read or was changed.
  absl::StatusOr<std::vector<std::byte>> ReadDocument(int64_t ordinal) const;

  // Only for kMapped: unmaps and closes the file, once a backend has its own copy of the tokens. Afterwards
  // documents().tokens is null, and Check() returns OK. Not thread-safe: call it before the shard is shared between
  // threads.
  void ReleaseTokens();

  // Returns the bytes of the whole file, valid until ReleaseTokens. documents().tokens points into them.
  std::string_view bytes() const;

  const std::string& path() const;
  int64_t num_bytes() const;  // of the file
  // Returns the bytes of host memory that this object takes: the file's size for kCopied, without the tokens for
  // kMapped.
  int64_t host_bytes() const;

 private:
  struct State;
  explicit Shard(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::collection
