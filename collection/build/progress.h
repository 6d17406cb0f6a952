// Reports the progress of a build or an encoding to an observer.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "collection/quantization_loss.h"

namespace maxsim::collection {

struct BuildProgress {
  enum class Stage {
    kReading,     // ids and payload sizes
    kWriting,     // shards
    kShardDone,   // one more shard is complete
    kEncoding,    // all shards are complete; fields and codes are written
    kPublishing,  // all files are complete; the manifest is published next
    kPublished,   // published; old files are removed next
  };
  Stage stage = Stage::kReading;
  int64_t documents_done = 0;
  int64_t documents_total = 0;
  int64_t bytes_done = 0;   // written
  int64_t bytes_total = 0;  // 0 while reading
  int64_t shards_done = 0;
  int64_t shards_total = 0;
  QuantizationLoss loss = {};  // i8 only; set once all shards are written
  // With kPublished: an error if the folder could not be synced to disk. The generation is published, but a power
  // failure may bring back the previous one.
  absl::Status synchronised = absl::OkStatus();
};

// Called every few MiB. An error that the observer returns ends the build.
using BuildObserver = std::function<absl::Status(const BuildProgress&)>;

// Sets the stage and calls the observer, which may be null. Returns what the observer returns.
inline absl::Status Report(const BuildObserver& observer, BuildProgress& progress, BuildProgress::Stage stage) {
  progress.stage = stage;
  return observer == nullptr ? absl::OkStatus() : observer(progress);
}

}  // namespace maxsim::collection
