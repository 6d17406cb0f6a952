// Has the steps of starting a server, each on its own: the backend, the first query, the file that names the ports.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/maxsim.h"
#include "server/batching/scheduler.h"
#include "server/config/config.h"
#include "server/encoder/encoder.h"
#include "server/live/local/live_options.h"
#include "server/observability/metrics.h"
#include "server/store/collection/collection.h"

namespace maxsim {

// Holds a backend and the number that people know its device by.
struct NumberedBackend {
  std::unique_ptr<Backend> backend;
  int number = 0;
};

// Returns the backends that the configuration asks for, one a device; auto takes CUDA where its first device works, and
// says in one log line why not.
absl::StatusOr<std::vector<NumberedBackend>> ChooseBackends(const config::Config& config);

// Returns the encoder of texts that the configuration names, with its cache; null where it names none. `metrics` must
// outlive it. Reads its token and certificates, and does not wait for it to answer. Errors name the key.
absl::StatusOr<std::unique_ptr<encoder::Encoder>> MakeEncoder(const config::Config& config, Metrics* metrics);

// Returns the options of live collections that the configuration asks for.
live::LiveOptions LiveOptionsOf(const config::Config& config);

// Scores a small query against documents of every shard, on every device that has copies, so that what is done once
// (loading kernels, touching memory, starting threads) is done before a client waits for it. `max_query_tokens` is the
// engine's. Blocks.
absl::Status WarmUp(const std::shared_ptr<const store::Collection>& collection, batching::Scheduler& scheduler,
                    int64_t max_query_tokens);

// Writes {"grpc_port": N, "http_port": N, "pid": N} under a temporary name, and renames it: a reader sees all of it or
// none.
absl::Status WritePortFile(const std::string& path, int grpc_port, int http_port);

// Removes an old file, and makes sure, before anything is loaded, that a new one can be written there.
absl::Status PreparePortFile(const std::string& path);

// True when the file at `path` is one that WritePortFile wrote in this process.
bool NamesThisProcess(const std::string& path);

// Removes the file if it is there: a reader must not find the ports of a server that is gone.
absl::Status RemovePortFile(const std::string& path);

}  // namespace maxsim
