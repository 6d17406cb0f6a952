#include "server/cluster/observed/slot_layout.h"

#include <algorithm>
#include <optional>

#include "base/text.h"
#include "collection/slot_layout.h"
#include "server/cluster/observed/collection_report.h"
#include "server/service/layout/layout_message.h"

namespace maxsim::cluster {

std::string LayoutFault(const v1::SlotLayout& layout) {
  if (layout.revision() == 0) return "revision is 0; must be at least 1";
  const std::optional<collection::SlotLayoutFault> fault = collection::CheckSlotOwners(service::OwnersOf(layout));
  return fault.has_value() ? Cat(fault->field, " ", fault->problem) : "";
}

const v1::SlotOwner* OwnerIn(const v1::SlotLayout& layout, std::string_view group) {
  const auto found = std::find_if(layout.owners().begin(), layout.owners().end(),
                                  [&](const v1::SlotOwner& owner) { return owner.group() == group; });
  return found == layout.owners().end() ? nullptr : &*found;
}

bool Holds(const v1::CollectionInfo& info, const collection::SlotRange& slots) { return SlotsOf(info).contains(slots); }

}  // namespace maxsim::cluster
