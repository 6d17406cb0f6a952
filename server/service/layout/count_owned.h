// Counts the documents of each owner in a collection's layout.
#pragma once

#include "maxsim/v1/rerank.pb.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// The work that one call of GetInfo may do for all collections together, in checks. Between two checks, at most 65,536
// ids are hashed, which takes 2 ms. GetInfo must answer well within 250 ms: after that, a router prefers other
// replicas.
constexpr int kMaxCountChecks = 8;

// Sets SlotOwner.num_documents in `info`, which describes the collection. Does so for each owner (group of servers)
// whose slots the collection holds completely.
//
// Makes at most `checks_left` checks, and subtracts those that it made. If these do not suffice, leaves numbers unset,
// and a later call continues the counting. Also leaves them unset if there are more ranges of slots than the collection
// keeps masks for (store::SlotMasks::kMaxRanges): each would evict the mask of another, and filters would hash all ids
// again and again.
void CountOwned(const store::Collection& collection, v1::CollectionInfo& info, int& checks_left);

}  // namespace maxsim::service
