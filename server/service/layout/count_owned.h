// Counts the documents of each owner in a collection's layout.
#pragma once

#include "maxsim/v1/rerank.pb.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// Sets SlotOwner.num_documents of each owner all of whose slots the collection holds. `info` must describe the
// collection.
//
// Takes at most about 16 ms. If it cannot hash all ids in this time, it leaves numbers unset, and a later call
// continues where this one stopped. It also leaves them unset if it would have to count more ranges than the collection
// keeps masks for (store::SlotMasks::kMaxRanges): each range would evict the mask of another one, and filters would
// hash all ids again and again.
void CountOwned(const store::Collection& collection, v1::CollectionInfo& info);

}  // namespace maxsim::service
