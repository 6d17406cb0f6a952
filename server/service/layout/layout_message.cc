#include "server/service/layout/layout_message.h"

#include <optional>

#include "client/error_details.h"

namespace maxsim::service {
namespace {

std::vector<collection::SlotOwner> FromProto(const google::protobuf::RepeatedPtrField<v1::SlotOwner>& messages) {
  std::vector<collection::SlotOwner> owners;
  owners.reserve(static_cast<size_t>(messages.size()));
  for (const v1::SlotOwner& owner : messages) {
    owners.push_back(
        {.group = owner.group(), .first_slot = owner.slots().first_slot(), .end_slot = owner.slots().end_slot()});
  }
  return owners;
}

}  // namespace

std::vector<collection::SlotOwner> OwnersOf(const v1::SlotLayout& layout) { return FromProto(layout.owners()); }

absl::StatusOr<std::vector<collection::SlotOwner>> OwnersOf(const v1::SetLayoutRequest& request) {
  std::vector<collection::SlotOwner> owners = FromProto(request.owners());
  const std::optional<collection::SlotLayoutFault> fault = collection::CheckSlotOwners(owners);
  if (!fault.has_value()) return owners;
  if (!fault->limit.has_value()) return client::InvalidField(fault->field, fault->problem);
  return client::InvalidField(fault->field, fault->problem, {fault->limit->max, fault->limit->value});
}

v1::SlotLayout ToProto(const collection::SlotLayout& layout) {
  v1::SlotLayout message;
  message.set_revision(layout.revision);
  for (const collection::SlotOwner& owner : layout.owners) {
    v1::SlotOwner& added = *message.add_owners();
    added.set_group(owner.group);
    added.mutable_slots()->set_first_slot(owner.first_slot);
    added.mutable_slots()->set_end_slot(owner.end_slot);
  }
  return message;
}

}  // namespace maxsim::service
