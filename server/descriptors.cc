#include "server/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/open_descriptors.h"
#include "collection/log/collection_log.h"

namespace maxsim {
namespace {

// Descriptors per thread that loads shards: one for the shard, one for its folder, and some that the thread is about
// to close.
constexpr uint64_t kOfLoads = 4;
// Descriptors for gRPC's event loops, the log, and the socket pairs of 64 relayed health checks.
constexpr uint64_t kOfOthers = 192;
// Descriptors per live collection. Only collections that are configured as live are counted, not those that clients
// make live or whose folder already has a log.
constexpr uint64_t kOfLiveCollection = collection::kMaxLogDescriptors;
// Minimum numbers of connections, however low the limit on descriptors is. If there is no descriptor even for these,
// the gate closes other connections.
constexpr uint64_t kFewestConnections = 8;
constexpr uint64_t kFewestHttpConnections = 4;
// If there are too few descriptors, HTTP connections that have a request get at most an eighth of the limit, and
// those without a request get at most another eighth.
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
  // gRPC gets at least half of the free descriptors even if the other users could need all of them: HTTP, like the
  // gate, closes connections to make room for new ones.
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
