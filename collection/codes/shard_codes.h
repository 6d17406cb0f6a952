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

// The codes of a shard's documents: the first 1, 2 or 4 of the stored planes (one bit of every vector element each).
// Open checks every scale and bound. The class is thread-safe.
//
// Files must not be changed while they are memory-mapped. If one is changed anyway, nothing crashes, but scores
// computed from its bits may be wrong: after such a computation call Check(), and discard the scores if it fails.
class ShardCodes final : public MemorySource {
 public:
  // Opens the files of the first `planes` planes of a shard and checks them against the manifest. With Access::kMapped,
  // planes and factors are memory-mapped, and everything else is read into memory. Returns INVALID_ARGUMENT if the
  // collection has no codes, or codes of fewer planes. Errors of a file are those of Shard::Open. Each file takes one
  // descriptor until Open returns; with kMapped until the file is unmapped.
  static absl::StatusOr<std::shared_ptr<ShardCodes>> Open(const Folder& folder, const Manifest& manifest,
                                                          const ShardEntry& entry, int planes, Access access,
                                                          bool check_checksum, const StopSignal* stop = nullptr);
  static absl::StatusOr<std::shared_ptr<ShardCodes>> Open(const std::string& folder, const Manifest& manifest,
                                                          const ShardEntry& entry, int planes, Access access,
                                                          bool check_checksum);
  ~ShardCodes() override;
  ShardCodes(const ShardCodes&) = delete;
  ShardCodes& operator=(const ShardCodes&) = delete;

  // Returns a view of the codes, valid as long as this object and the Shard live. `documents` must be the documents of
  // the Shard that was opened with the same entry.
  CodesView view(const DocumentsView& documents) const;

  int planes() const;

  // Returns OK if the mapped files are unchanged since they were opened. Returns DATA_LOSS, naming the file, if one was
  // written to or a part of it could not be read. Always OK for kCopied.
  absl::Status Check() const override;

  // Copies `num_bytes` of a plane or of factors, from the address `from` in the view, to `to`. With kMapped, reads them
  // from the file. Returns DATA_LOSS, naming the file, if it cannot be read.
  absl::Status Read(const void* from, size_t num_bytes, void* to) const override;

  // Only for kMapped: unmaps and closes the files, once a backend has its own copy of planes and factors. Afterwards
  // new views have null planes and factors, and Check() returns OK. Not thread-safe: call it before the codes are
  // shared between threads.
  void ReleasePlanes();

  // Returns the bytes of file 0, 1 or 2 (collection/codes/code_file.h), valid until ReleasePlanes.
  std::string_view bytes(size_t file) const;

  int64_t num_bytes() const;   // of the files
  int64_t host_bytes() const;  // host memory that this takes: all of the files for kCopied, without planes and factors
                               // for kMapped

 private:
  struct File;
  struct State;
  explicit ShardCodes(std::unique_ptr<State> state);
  static absl::StatusOr<File> OpenFile(const Folder& folder, const Manifest& manifest, const ShardEntry& entry,
                                       size_t idx, Access access, bool check_checksum, const StopSignal* stop);
  std::unique_ptr<State> state_;
};

}  // namespace maxsim::collection
