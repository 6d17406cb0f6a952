#include "server/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/open_descriptors.h"
#include "collection/log/collection_log.h"

namespace maxsim {
namespace {

// Descriptors of a thread that loads shards: for the shard and its folder, and some that it is about to close.
constexpr uint64_t kOfLoads = 4;
// Descriptors for gRPC's event loops, the log, and the socket pairs of 64 relayed health checks.
constexpr uint64_t kOfOthers = 192;
// Descriptors per live collection. Only collections that are configured as live are counted, not those that clients
// make live or whose folder already has a log.
constexpr uint64_t kOfLiveCollection = collection::kMaxLogDescriptors;
// Minimum numbers of connections, however low the limit is. If even these do not fit, the gate makes room.
constexpr uint64_t kFewestConnections = 8;
constexpr uint64_t kFewestHttpConnections = 4;
// If there are too few descriptors, HTTP gets an eighth of them for connections with a request, and an eighth for those
// without.
constexpr uint64_t kShareOfHttp = 8;

}  // namespace

uint64_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);  // Without it the old limit stays.
  }
  return DescriptorLimit();
}

DescriptorPlan PlanDescriptors(const config::Config& config, uint64_t num_open, uint64_t limit) {
  uint64_t others = num_open + kOfOthers + kOfLoads * static_cast<uint64_t>(config.store.load_threads);
  others += kOfLiveCollection * static_cast<uint64_t>(std::count_if(
                                    config.collections.begin(), config.collections.end(),
                                    [](const config::CollectionConfig& collection) { return collection.live; }));
  if (!config.http.address.empty()) {
    others += static_cast<uint64_t>(config.http.max_concurrent_requests) +
              static_cast<uint64_t>(config.http.max_idle_connections);
  }
  const auto wanted = static_cast<uint64_t>(config.grpc.max_connections);
  // gRPC gets at least half of the free descriptors, even if the others would need all of them: HTTP's connections make
  // room for one another too.
  const uint64_t half = limit > num_open ? (limit - num_open) / 2 : 0;
  const uint64_t left = std::max(limit > others ? limit - others : 0, half);
  return {.needed = others + wanted,
          .max_connections = static_cast<int>(std::min(wanted, std::max(left, kFewestConnections)))};
}

int FitHttpConnections(int wanted, uint64_t limit) {
  const uint64_t share = std::max(limit / kShareOfHttp, kFewestHttpConnections);
  return static_cast<int>(std::min(static_cast<uint64_t>(wanted), share));
}

}  // namespace maxsim
