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
namespace {

// CountInSlots calls a check before every 65,536 ids that it hashes, which takes 2 ms. GetInfo must answer well within
// 250 ms: after that, a router prefers other replicas.
constexpr int kMaxChecks = 8;

}  // namespace

void CountOwned(const store::Collection& collection, v1::CollectionInfo& info) {
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
  int num_checks = 0;
  for (v1::SlotOwner* const owner : within) {
    const absl::StatusOr<uint64_t> count = collection.CountInSlots(client::SlotRangeOf(owner->slots()), [&] {
      return ++num_checks <= kMaxChecks ? absl::OkStatus() : absl::ResourceExhaustedError("too many ids");
    });
    if (count.ok()) owner->set_num_documents(*count);
  }
}

}  // namespace maxsim::service
