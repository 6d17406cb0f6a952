#include "server/cluster/parts/scatter.h"

#include <algorithm>

namespace maxsim::cluster {
namespace {

// The time kept for merging and for the way back, each a fraction of a millisecond. Of a short deadline, a twentieth.
constexpr absl::Duration kWayBack = absl::Milliseconds(5);

}  // namespace

absl::Time DeadlineOfGroups(absl::Time deadline, absl::Time now, absl::Duration default_timeout) {
  if (deadline == absl::InfiniteFuture()) return now + default_timeout;
  return deadline - std::min(kWayBack, (deadline - now) / 20);
}

}  // namespace maxsim::cluster
