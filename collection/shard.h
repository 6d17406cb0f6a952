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

// DATA_LOSS, naming the file, unless its size is the entry's.
absl::Status CheckSize(const InputFile& file, const ShardEntry& entry);

// How a shard's bytes are held while it is open.
enum class Access {
  kMapped,  // tokens memory-mapped and read on demand, the file kept open; everything else read into memory
  kCopied,  // read whole into memory; the file is closed again
};

// Gives direct access to a shard's ids, for callers that read many. The id type decides if `ints` or the rest is set.
struct ShardIds {
  const int64_t* ints = nullptr;     // [num_documents]
  const int64_t* offsets = nullptr;  // [num_documents + 1]: id n is bytes offsets[n] .. offsets[n + 1]
  const char* bytes = nullptr;
  int64_t size = 0;  // of every string id, where they have equally many bytes; else 0
};

// Holds an immutable shard: token matrices, ids, payloads. Every offset and id has been checked on opening, so that
// accessors cannot leave the file. The class is thread-safe. Token values are not looked at (see verifier.h).
//
// Files must not be changed while they are mapped. If one is changed anyway, readers may see other token values, and
// nothing worse: ids, offsets and payloads are copies, a file that was truncated or cannot be read gives zeros
// (mapping_guard.h), and Check() reports it.
class Shard final : public MemorySource {
 public:
  // Opens `folder`/`entry.file` and checks it against the entry and the manifest: sizes, counts, types. With
  // `check_checksum` the whole file is read and hashed, and a difference is DATA_LOSS. NOT_FOUND, or DATA_LOSS naming
  // the file, the field, the value and what was expected, or the system's error for a file that cannot be read.
  // Ends with the status of `stop` (may be null) once that is stopped, which is looked at between blocks that are read,
  // hashed or checked. Takes no more memory than the entry says: a file that asks for more is DATA_LOSS before it is
  // read. One descriptor is open meanwhile, and stays so for kMapped.
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
  // May be called only for the matching id type, with `ordinal` < documents().num_documents.
  std::string_view string_id(int64_t ordinal) const;
  int64_t int_id(int64_t ordinal) const;
  ShardIds ids() const;  // valid as long as the shard lives

  // Returns each document's position in the order of the whole collection (positions.h), strictly ascending, where the
  // collection is a partition; else null. [num_documents] Valid as long as the shard lives.
  const int64_t* ordinals() const;

  // Returns the document's payload, a JSON object, or "" if it has none.
  std::string_view payload(int64_t ordinal) const;

  // OK if tokens read so far were those of the opened file; DATA_LOSS, naming it, when it was written to or cannot be
  // read. Always OK for kCopied.
  absl::Status Check() const override;

  // Reads token bytes, out of the file where they are mapped from it. DATA_LOSS, naming it, when it cannot be read.
  absl::Status Read(const void* from, size_t num_bytes, void* to) const override;

  // Returns the rows of one document as they are stored, [tokens, dim]. After ReleaseTokens they come from the file at
  // path(), which is opened for it: FAILED_PRECONDITION if that is not the file that was opened first, or is gone.
  // DATA_LOSS if it cannot be read, or where Check() would say so. `ordinal` < documents().num_documents.
  absl::StatusOr<std::vector<std::byte>> ReadDocument(int64_t ordinal) const;

  // For kMapped, once a backend has its own copy of the tokens: unmaps and closes the file. documents().tokens is null
  // then, and Check() is OK. Before the shard is shared between threads.
  void ReleaseTokens();

  // Returns the bytes of the file, with the tokens at documents().tokens among them, valid until ReleaseTokens and as
  // long as the shard lives. For callers that hash the bytes while they copy them. Mapped tokens are read in place.
  std::string_view bytes() const;

  const std::string& path() const;
  int64_t num_bytes() const;   // of the file
  int64_t host_bytes() const;  // of memory that this holds: all of the file for kCopied, all but the tokens for kMapped

 private:
  struct State;
  explicit Shard(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::collection
