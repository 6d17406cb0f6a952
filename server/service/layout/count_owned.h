// Counts the documents of each owner in a collection's layout.
#pragma once

#include "maxsim/v1/rerank.pb.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// The number of checks, each before at most 65,536 ids that are hashed in 2 ms, that one call of GetInfo may make for
// all collections together. GetInfo must answer well within 250 ms: after that, a router prefers other replicas.
constexpr int kMaxCountChecks = 8;

// Sets SlotOwner.num_documents of each owner all of whose slots the collection holds. `info` must describe the
// collection.
//
// Makes at most `checks_left` checks, and subtracts those that it made. If it cannot hash all ids with them, it leaves
// numbers unset, and a later call continues where this one stopped. It also leaves them unset if it would have to count
// more ranges than the collection keeps masks for (store::SlotMasks::kMaxRanges): each range would evict the mask of
// another one, and filters would hash all ids again and again.
void CountOwned(const store::Collection& collection, v1::CollectionInfo& info, int& checks_left);

}  // namespace maxsim::service
