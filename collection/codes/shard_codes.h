// Opens the codes of one shard for reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/manifest.h"
#include "collection/shard.h"
#include "kernels/codes/codes.h"
#include "kernels/maxsim.h"

namespace maxsim {
class Folder;
}  // namespace maxsim

namespace maxsim::collection {

// Holds the codes of a shard's documents, in the first 1, 2 or 4 of the planes that are stored: files of planes beyond
// are not opened. Every scale and bound has been checked on opening. The class is thread-safe.
//
// Files must not be changed while they are mapped, as those of Shard. If one is changed anyway, bits and factors may
// change, which moves estimates and nothing else: scales and bounds are copies, a file that was truncated or cannot be
// read gives zeros, and Check() reports it. Do not trust a bound of bits that were read before Check() failed.
class ShardCodes final : public MemorySource {
 public:
  // Opens the files of `planes` planes of a shard and checks them against the manifest: sizes, counts, type, rotation.
  // With Access::kMapped planes and factors are mapped and read on demand, and everything else is read into memory.
  // INVALID_ARGUMENT if the collection has codes of fewer planes than `planes`, or none. Errors of a file are those
  // of Shard::Open. Each file takes one descriptor until Open returns; with kMapped until the file is unmapped.
  static absl::StatusOr<std::shared_ptr<ShardCodes>> Open(const Folder& folder, const Manifest& manifest,
                                                          const ShardEntry& entry, int planes, Access access,
                                                          bool check_checksum, const StopSignal* stop = nullptr);
  static absl::StatusOr<std::shared_ptr<ShardCodes>> Open(const std::string& folder, const Manifest& manifest,
                                                          const ShardEntry& entry, int planes, Access access,
                                                          bool check_checksum);
  ~ShardCodes() override;
  ShardCodes(const ShardCodes&) = delete;
  ShardCodes& operator=(const ShardCodes&) = delete;

  // Returns a view of the codes; the planes are in the mapped or copied files. `documents` must come from the Shard
  // that was opened with the same entry: the view uses their offsets, and is valid as long as both live.
  CodesView view(const DocumentsView& documents) const;

  int planes() const;

  // OK if bits read so far were those of the opened files; DATA_LOSS, naming one, when it was written to or cannot be
  // read. Always OK for kCopied.
  absl::Status Check() const override;

  // Reads bytes of a plane or of factors, out of the file where they are mapped from it. DATA_LOSS, naming it, when it
  // cannot be read.
  absl::Status Read(const void* from, size_t num_bytes, void* to) const override;

  // For kMapped, once a backend has its own copy of planes and factors: unmaps and closes the files. The view's planes
  // and factors are null then, and Check() is OK. Before the codes are shared between threads.
  void ReleasePlanes();

  // Returns the bytes of file 0, 1 or 2 (collection/codes/code_file.h), valid until ReleasePlanes and as long as the
  // codes live. For callers that hash the bytes while they copy them.
  std::string_view bytes(size_t file) const;

  int64_t num_bytes() const;   // of the files
  int64_t host_bytes() const;  // of memory that this holds: all for kCopied, scales, bounds and headers for kMapped

 private:
  struct File;
  struct State;
  explicit ShardCodes(std::unique_ptr<State> state);
  static absl::StatusOr<File> OpenFile(const Folder& folder, const Manifest& manifest, const ShardEntry& entry,
                                       size_t idx, Access access, bool check_checksum, const StopSignal* stop);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::collection
