// Computes the codes of a shard's documents and writes them into files beside the shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/build/codes_request.h"
#include "collection/build/generation_files.h"
#include "collection/manifest.h"
#include "collection/shard.h"
#include "kernels/thread_pool.h"

namespace maxsim::collection {

// Returns the total size in bytes of a shard's code files.
int64_t CodesBytes(const Manifest& manifest, const ShardEntry& entry);

// Returns whether the codes need a factor per token, because the tokens' norms differ (NormSpread). Reads up to
// kSampledDocuments documents, spread evenly over all collections. The result does not depend on how documents are
// divided into shards. The shards need not be published.
inline constexpr int64_t kSampledDocuments = 1000;
struct StoredShards {
  std::string folder;
  const Manifest* manifest = nullptr;
};
absl::StatusOr<bool> NeedFactors(const std::vector<StoredShards>& collections);

// Chooses the format of the requested codes. All collections must have the same storage type, and request.planes must
// not be 0. Returns the errors of NeedFactors.
absl::StatusOr<CodesFormat> ChooseCodesFormat(const CodesRequest& request,
                                              const std::vector<StoredShards>& collections);

// Encodes shards one after another. For one thread; it starts helper threads.
class ShardEncoder {
 public:
  // Called with the bytes of codes made since the last call. An error that it returns ends the encoding.
  using OnProgress = std::function<absl::Status(int64_t bytes)>;

  // `num_threads` must be at least 1 and includes the caller's thread. Fewer threads run if the system cannot start
  // more. The files do not depend on the number of threads.
  explicit ShardEncoder(int num_threads, OnProgress on_progress = nullptr);

  // Encodes the shard `folder`/entry.file in the format manifest.codes, and writes complete files named
  // CodeFileName(generation, index, 0), 1 and 2. Returns their entries. Adds each file to `files` before it exists.
  // Takes memory for the codes of a batch of tokens, and about 30 bytes per document. With `check_checksum`, first
  // verifies the whole shard's checksum. Returns DATA_LOSS if the shard does not match the entry, or has a value that
  // no token may have.
  absl::StatusOr<std::vector<CodeFileEntry>> Encode(const std::string& folder, const Manifest& manifest,
                                                    const ShardEntry& entry, int64_t generation, int64_t index,
                                                    bool check_checksum, UnpublishedFiles& files);

 private:
  const OnProgress on_progress_;
  ThreadPool pool_;
};

}  // namespace maxsim::collection
