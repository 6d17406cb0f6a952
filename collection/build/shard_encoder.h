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

// Returns whether tokens need factors, because their norms differ (NormSpread): a function of the documents and of
// their order, and not of how they are cut into shards. Reads up to kSampledDocuments of the documents of all
// collections, which are spread evenly. The shards are in the folders, and need not be published.
inline constexpr int64_t kSampledDocuments = 1000;
struct StoredShards {
  std::string folder;
  const Manifest* manifest = nullptr;
};
absl::StatusOr<bool> NeedFactors(const std::vector<StoredShards>& collections);

// Chooses the format of the codes that are asked for. All collections have one storage type; request.planes is not 0.
// Fails as NeedFactors does.
absl::StatusOr<CodesFormat> ChooseCodesFormat(const CodesRequest& request,
                                              const std::vector<StoredShards>& collections);

// Encodes shards one after another. Used by one thread, which starts others to help it.
class ShardEncoder {
 public:
  // Gets the bytes of codes that were made since the last call; an error that it returns ends the encoding.
  using OnProgress = std::function<absl::Status(int64_t bytes)>;

  // `num_threads` is at least 1 and includes the caller's thread; fewer run if the system gives no more. The files do
  // not depend on their number.
  explicit ShardEncoder(int num_threads, OnProgress on_progress = nullptr);

  // Writes the codes that manifest.codes says of a shard, which lies in `folder` under the entry's name, into files of
  // `generation` and number `index`, and returns their entries. All are complete under their names then. `files` takes
  // note of each before it appears. Memory is a batch of tokens' codes and some 30 bytes per document. With
  // `check_checksum` the shard is read once more before, for its checksum. DATA_LOSS for a shard that is not what the
  // entry says, or has a value that no token may have: with document, token and column.
  absl::StatusOr<std::vector<CodeFileEntry>> Encode(const std::string& folder, const Manifest& manifest,
                                                    const ShardEntry& entry, int64_t generation, int64_t index,
                                                    bool check_checksum, UnpublishedFiles& files);

 private:
  const OnProgress on_progress_;
  ThreadPool pool_;
};

}  // namespace maxsim::collection
