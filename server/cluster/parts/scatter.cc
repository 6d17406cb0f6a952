#include "server/cluster/parts/scatter.h"

#include <algorithm>

namespace maxsim::cluster {
namespace {

// The way back takes a fraction of a millisecond, and merging as much; a short deadline gives away a twentieth.
constexpr absl::Duration kWayBack = absl::Milliseconds(5);

}  // namespace

absl::Time DeadlineOfGroups(absl::Time deadline, absl::Time now, absl::Duration default_timeout) {
  if (deadline == absl::InfiniteFuture()) return now + default_timeout;
  return deadline - std::min(kWayBack, (deadline - now) / 20);
}

}  // namespace maxsim::cluster
