#include "server/service/layout/count_owned.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/slot_message.h"
#include "collection/slots.h"
#include "server/store/collection/slot_masks.h"

namespace maxsim::service {

void CountOwned(const store::Collection& collection, v1::CollectionInfo& info, int& checks_left) {
  const collection::SlotRange held = collection.manifest().slots();
  std::vector<v1::SlotOwner*> within;  // owners of some of the collection's slots
  for (v1::SlotOwner& owner : *info.mutable_live()->mutable_layout()->mutable_owners()) {
    const collection::SlotRange slots = client::SlotRangeOf(owner.slots());
    if (slots == held) {
      owner.set_num_documents(info.num_documents());
    } else if (held.contains(slots)) {
      within.push_back(&owner);
    }
  }
  if (within.size() > store::SlotMasks::kMaxRanges) return;
  for (v1::SlotOwner* const owner : within) {
    const absl::StatusOr<uint64_t> count = collection.CountInSlots(client::SlotRangeOf(owner->slots()), [&] {
      if (checks_left == 0) return absl::ResourceExhaustedError("too many ids");
      --checks_left;
      return absl::OkStatus();
    });
    if (count.ok()) owner->set_num_documents(*count);
  }
}

}  // namespace maxsim::service
