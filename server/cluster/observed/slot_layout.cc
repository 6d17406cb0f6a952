#include "server/cluster/observed/slot_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "server/cluster/observed/collection_report.h"

namespace maxsim::cluster {
namespace {

constexpr size_t kMaxOwnerBytes = 64;  // as the names of groups in cluster.groups

bool IsOwnerName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxOwnerBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
}

}  // namespace

bool IsSlotRange(const v1::PartitionInfo& slots) {
  return slots.first_slot() < slots.end_slot() && slots.end_slot() <= static_cast<uint32_t>(collection::kNumSlots);
}

collection::SlotRange RangeOf(const v1::PartitionInfo& slots) {
  return {static_cast<int32_t>(slots.first_slot()), static_cast<int32_t>(slots.end_slot())};
}

v1::PartitionInfo MessageOf(const collection::SlotRange& slots) {
  v1::PartitionInfo message;
  message.set_first_slot(static_cast<uint32_t>(slots.first));
  message.set_end_slot(static_cast<uint32_t>(slots.end));
  return message;
}

std::string LayoutFault(const v1::SlotLayout& layout) {
  if (layout.revision() == 0) return "revision is 0; must be at least 1";
  std::set<std::string_view> names;
  uint32_t next = 0;
  for (int i = 0; i < layout.owners_size(); ++i) {
    const v1::SlotOwner& owner = layout.owners(i);
    if (!IsOwnerName(owner.group()) || !names.insert(owner.group()).second) {
      return absl::StrCat("owners[", i, "].group is ", Quote(owner.group()),
                          ", which is not a valid name or is repeated");
    }
    if (!IsSlotRange(owner.slots()) || owner.slots().first_slot() != next) {
      return absl::StrCat("owners[", i, "].slots is ", owner.slots().first_slot(), " to ", owner.slots().end_slot(),
                          "; must be a range that begins with ", next, " and ends by ", collection::kNumSlots);
    }
    next = owner.slots().end_slot();
  }
  if (next == static_cast<uint32_t>(collection::kNumSlots)) return "";
  return absl::StrCat("owners end at slot ", next, "; must end at ", collection::kNumSlots);
}

const v1::SlotOwner* OwnerIn(const v1::SlotLayout& layout, std::string_view group) {
  const auto found = std::find_if(layout.owners().begin(), layout.owners().end(),
                                  [&](const v1::SlotOwner& owner) { return owner.group() == group; });
  return found == layout.owners().end() ? nullptr : &*found;
}

bool Holds(const v1::CollectionInfo& info, const collection::SlotRange& slots) { return SlotsOf(info).contains(slots); }

}  // namespace maxsim::cluster
