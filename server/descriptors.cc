#include "server/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/open_descriptors.h"
#include "collection/log/collection_log.h"

namespace maxsim {
namespace {

// File descriptors for each thread that loads shards: one for the shard, one for its folder, and two for files that the
// thread is about to close.
constexpr uint64_t kOfLoads = 4;
// File descriptors for everything else: gRPC's event loops, the log, and 64 relayed connections (relayed_connection.h).
constexpr uint64_t kOfOthers = 192;
// File descriptors for each collection that the configuration marks as live. Other live collections are not counted:
// those that clients create, and those that have a log in their folder.
constexpr uint64_t kOfLiveCollection = collection::kMaxLogDescriptors;
// Each port may have at least this many connections, however low the limit on descriptors is. If no descriptor is left
// even for these, the gate, which accepts gRPC connections, closes others.
constexpr uint64_t kFewestConnections = 8;
constexpr uint64_t kFewestHttpConnections = 4;
// If there are too few descriptors, each kind of HTTP connection (with a request, without a request) may use the limit
// on descriptors divided by this number.
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
  // gRPC gets at least half of the free descriptors, even if the rest of the server could need all of them. That is
  // safe, because both ports close connections to make room for new ones.
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
