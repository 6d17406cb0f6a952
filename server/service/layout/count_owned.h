// Counts the documents of the owners in a collection's layout.
#pragma once

#include "maxsim/v1/rerank.pb.h"
#include "server/store/collection/collection.h"

namespace maxsim::service {

// Sets SlotOwner.num_documents of each owner whose slots the collection holds completely. `info` must describe the
// collection.
//
// Takes at most about 16 ms: if more ids must be hashed for that, this call hashes some of them, and leaves the numbers
// unset; so a later call sets them. Leaves them unset, too, if it would have to count more ranges than the collection
// keeps masks of (store::SlotMasks::kMaxRanges), because filters would then hash all ids again and again.
void CountOwned(const store::Collection& collection, v1::CollectionInfo& info);

}  // namespace maxsim::service
