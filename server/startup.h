// The steps of starting a server: its backends, warm-up query, port file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/options.h"
#include "kernels/maxsim.h"
#include "server/batching/scheduler.h"
#include "server/config/config.h"
#include "server/encoder/encoder.h"
#include "server/live/local/live_options.h"
#include "server/observability/metrics.h"
#include "server/store/collection/collection.h"

namespace maxsim {

// A backend, with the number under which people know its device.
struct NumberedBackend {
  std::unique_ptr<Backend> backend;
  int number = 0;
};

// Returns the configured backends, one per device. If backend.kind is auto and CUDA or the first device fails, logs the
// reason and returns the CPU backend. If the first device works and another configured one does not, returns an error.
absl::StatusOr<std::vector<NumberedBackend>> ChooseBackends(const config::Config& config);

// Returns the text encoder that the configuration names, with its cache, or null if it names none. `metrics` must
// outlive the result. Reads the token and the certificates, but does not call the encoder. Errors name the key.
absl::StatusOr<std::unique_ptr<encoder::Encoder>> MakeEncoder(const config::Config& config, Metrics* metrics);

// Returns the options for connections to other servers of the cluster, without a target. A router uses them to call its
// servers; a server uses them to copy collections from another server. Reads the token and the certificates. Errors
// name the key.
absl::StatusOr<client::ClientOptions> OptionsToServers(const config::Config& config);

// Returns the options of live collections that the configuration asks for.
live::LiveOptions LiveOptionsOf(const config::Config& config);

// Scores a small query against documents of every shard, on every device that has a copy of the shard. So one-time
// costs (loading kernels, touching memory, starting threads) do not delay a client's first query. `max_query_tokens` is
// the engine's limit. Blocks.
absl::Status WarmUp(const std::shared_ptr<const store::Collection>& collection, batching::Scheduler& scheduler,
                    int64_t max_query_tokens);

// Writes {"grpc_port": N, "http_port": N, "pid": N} to a temporary file and renames that to `path`, so that no reader
// sees a part of the file.
absl::Status WritePortFile(const std::string& path, int grpc_port, int http_port);

// Removes an old port file, and checks that a new one can be written there.
absl::Status PreparePortFile(const std::string& path);

// Returns whether this process wrote the port file at `path` (by the pid in it).
bool NamesThisProcess(const std::string& path);

// Removes the file if it exists: its ports are not valid any more.
absl::Status RemovePortFile(const std::string& path);

}  // namespace maxsim
