// Restricts the requests to a part of a collection to the part's slots. Pure: no network, no clock.
#pragma once

#include <utility>

#include "client/slot_message.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/view.h"

namespace maxsim::cluster {

// Adds the part's slots to the `visible` of a request if the part is restricted (CollectionView::Part). The server then
// treats documents of other slots as if it did not have them, and refuses the request if it does not hold all of these
// slots (IsOtherSlots). Must be called for every request that reads documents of a part. A request that only lists ids
// of the part's slots needs it too: a server that has dropped these slots since would report the ids as missing.
//
// The client's filter becomes the first member of a new conjunction, even if it is a conjunction itself. A server does
// not count the nodes that are added here (collection::CheckFilter), so a client's filter has the same limits at a
// router as at a single server.
template <typename Request>
void RestrictToSlots(const CollectionView::Part& part, Request& request) {
  if (!part.is_restricted) return;
  v1::Filter in_slots;
  *in_slots.mutable_in_slots() = client::SlotMessageOf(part.slots);
  if (!request.has_visible()) {
    *request.mutable_visible() = std::move(in_slots);
    return;
  }
  v1::Filter both;
  *both.mutable_all_of()->add_filters() = std::move(*request.mutable_visible());
  *both.mutable_all_of()->add_filters() = std::move(in_slots);
  *request.mutable_visible() = std::move(both);
}

}  // namespace maxsim::cluster
