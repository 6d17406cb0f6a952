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

// The codes of a shard's documents: the first 1, 2 or 4 of the stored planes. Files of other planes are not opened.
// Open checks every scale and bound. The class is thread-safe.
//
// Files must not be changed while they are mapped. If one is changed anyway, bits and factors may change, and
// estimates become wrong, but no other harm is done: scales and bounds are copies, a truncated or unreadable file
// becomes zeros, and Check() reports the change. If Check() fails, do not trust bounds on estimates from bits that
// were read before.
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

  // Returns OK if all bits read so far came from the unchanged files. Returns DATA_LOSS, naming a file, if it was
  // written to or cannot be read. Always OK for kCopied.
  absl::Status Check() const override;

  // Copies bytes of a plane or of factors. With kMapped reads them from the file. Returns DATA_LOSS, naming the file,
  // if it cannot be read.
  absl::Status Read(const void* from, size_t num_bytes, void* to) const override;

  // Only for kMapped: unmaps and closes the files. After this call the view's planes and factors are null, and Check()
  // returns OK. Use it when a backend has its own copy of planes and factors, and before the codes are shared between
  // threads.
  void ReleasePlanes();

  // Returns the bytes of file 0, 1 or 2 (collection/codes/code_file.h), valid until ReleasePlanes and as long as the
  // codes live. For callers that hash the bytes while they copy them.
  std::string_view bytes(size_t file) const;

  int64_t num_bytes() const;   // of the files
  int64_t host_bytes() const;  // host memory that this holds: all for kCopied; scales, bounds and headers for kMapped

 private:
  struct File;
  struct State;
  explicit ShardCodes(std::unique_ptr<State> state);
  static absl::StatusOr<File> OpenFile(const Folder& folder, const Manifest& manifest, const ShardEntry& entry,
                                       size_t idx, Access access, bool check_checksum, const StopSignal* stop);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::collection
