// Makes the codes of stored documents, and the files that hold them beside a shard.
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

// Returns the bytes that the codes of a shard take in files.
int64_t CodesBytes(const Manifest& manifest, const ShardEntry& entry);

// Returns whether tokens need factors because their norms differ (NormSpread). The result depends on the documents and
// their order, but not on their division into shards. Reads a sample of up to kSampledDocuments documents, spread
// evenly over all collections. The shards need not be published.
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

  // Writes the codes of a shard, in the format manifest.codes, and returns the entries of their files. The shard's file
  // is in `folder` under the entry's name. The new files' names have `generation` and `index`; they are complete when
  // this returns. Adds each file to `files` before it appears. Takes memory for the codes of a batch of tokens, and
  // about 30 bytes per document. With `check_checksum`, first reads the whole shard for its checksum. Returns DATA_LOSS
  // if the shard does not match the entry, or has a value that no token may have (with document, token and column).
  absl::StatusOr<std::vector<CodeFileEntry>> Encode(const std::string& folder, const Manifest& manifest,
                                                    const ShardEntry& entry, int64_t generation, int64_t index,
                                                    bool check_checksum, UnpublishedFiles& files);

 private:
  const OnProgress on_progress_;
  ThreadPool pool_;
};

}  // namespace maxsim::collection
