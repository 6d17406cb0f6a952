#include "server/live/shared/layout_value.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.h"
#include "nlohmann/json.hpp"
#include "server/live/shared/json_value.h"

namespace maxsim::live {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestQuote = 64;
constexpr uint64_t kLayoutFormatVersion = 1;

absl::StatusOr<std::string> ReadGroup(const Json& owner, std::string_view path) {
  const auto group = owner.find("group");
  if (group == owner.end() || !group->is_string()) return Invalid(path, ".group is not there or is not a text");
  return group->get_ref<const std::string&>();
}

absl::StatusOr<uint32_t> ReadSlot(const Json& slots, const char* member, std::string_view path) {
  const auto slot = slots.find(member);
  if (slot == slots.end() || !slot->is_number_unsigned() ||
      slot->get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
    return Invalid(path, ".slots.", member, " is not there or is not a whole number from 0 to 4294967295");
  }
  return slot->get<uint32_t>();
}

absl::StatusOr<collection::SlotOwner> ReadOwner(const Json& json, std::string_view path) {
  if (!json.is_object()) return Invalid(path, " is not an object");
  absl::StatusOr<std::string> group = ReadGroup(json, path);
  if (!group.ok()) return group.status();
  const auto slots = json.find("slots");
  if (slots == json.end() || !slots->is_object()) return Invalid(path, ".slots is not there or is not an object");
  const absl::StatusOr<uint32_t> first = ReadSlot(*slots, "first_slot", path);
  if (!first.ok()) return first.status();
  const absl::StatusOr<uint32_t> end = ReadSlot(*slots, "end_slot", path);
  if (!end.ok()) return end.status();
  return collection::SlotOwner{.group = *std::move(group), .first_slot = *first, .end_slot = *end};
}

}  // namespace

std::string FormatLayoutValue(const std::vector<collection::SlotOwner>& owners) {
  Json list = Json::array();
  for (const collection::SlotOwner& owner : owners) {
    list.push_back(
        {{"group", owner.group}, {"slots", {{"first_slot", owner.first_slot}, {"end_slot", owner.end_slot}}}});
  }
  return Json({{kFormatVersionKey, kLayoutFormatVersion}, {"owners", std::move(list)}}).dump();
}

absl::StatusOr<std::vector<collection::SlotOwner>> ParseLayoutValue(std::string_view value) {
  if (value.size() > kMaxLayoutValueBytes) {
    return Invalid("the value has ", value.size(), " bytes; must have at most ", kMaxLayoutValueBytes);
  }
  const Json json = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Invalid("the value ", Printable(value, kLongestQuote), " is not a JSON object");
  if (absl::Status status = CheckFormatVersion(json, kLayoutFormatVersion); !status.ok()) return status;
  const auto list = json.find("owners");
  if (list == json.end() || !list->is_array()) return Invalid("owners is not there or is not a list");
  std::vector<collection::SlotOwner> owners;
  for (const Json& one : *list) {
    absl::StatusOr<collection::SlotOwner> owner = ReadOwner(one, Cat("owners[", owners.size(), "]"));
    if (!owner.ok()) return owner.status();
    owners.push_back(*std::move(owner));
  }
  if (const std::optional<collection::SlotLayoutFault> fault = collection::CheckSlotOwners(owners)) {
    return Invalid(fault->field, ": ", fault->problem);
  }
  return owners;
}

}  // namespace maxsim::live
