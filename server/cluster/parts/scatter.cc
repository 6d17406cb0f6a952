#include "server/cluster/parts/scatter.h"

#include <algorithm>

namespace maxsim::cluster {
namespace {

// The time that is reserved for merging and for sending the answer, which each take a fraction of a millisecond.
// If the deadline is short, a twentieth of the remaining time is reserved instead.
constexpr absl::Duration kWayBack = absl::Milliseconds(5);

}  // namespace

absl::Time DeadlineOfGroups(absl::Time deadline, absl::Time now, absl::Duration default_timeout) {
  if (deadline == absl::InfiniteFuture()) return now + default_timeout;
  return deadline - std::min(kWayBack, (deadline - now) / 20);
}

}  // namespace maxsim::cluster
