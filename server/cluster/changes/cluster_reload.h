// Reloads a collection on all servers of a cluster.
#pragma once

#include "absl/status/statusor.h"
#include "maxsim/v1/admin.pb.h"
#include "server/cluster/groups/membership.h"
#include "server/service/api.h"

namespace maxsim::cluster {

// Reloads in two waves, within a wave one server after the other. The first wave is half of each group's replicas,
// rounded up, but never all replicas of a group that has several; the second wave is the rest. Requests use the old
// generation until every group has a replica with the new one, and then use the new one. So no answer mixes two
// generations, and every group always serves. (If groups have only one replica, there is one wave, and requests get
// UNAVAILABLE between the first and the last reload.)
//
// If the request names no generation, the first server whose published generation is new decides for all. A server that
// has missed an earlier reload does not decide, because its folder may lack later generations: it is told the number.
// If no server has a new generation, it is told the one that requests name. A server that cannot be reached is passed
// over, and listed in the response: once it answers, GenerationKeeper tells it to load the generation. But if that
// leaves a group without any server that was reached, returns UNAVAILABLE, which names a server, after all others are
// reloaded. Passes over servers without the collection; returns NOT_FOUND if no server has it. Any other error ends the
// reload at once.
//
// The response's `collection` is unset. `change.stop` must not be null. Blocks.
absl::StatusOr<v1::ReloadCollectionResponse> ReloadCluster(Membership& membership,
                                                           const v1::ReloadCollectionRequest& request,
                                                           const service::ChangeContext& change);

}  // namespace maxsim::cluster
