#include "server/http/collections/layout_body.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "collection/slot_layout.h"
#include "server/http/text/body_events.h"
#include "server/http/text/json_text.h"

namespace maxsim::http {
namespace {

// Handles the JSON parser's events for a body. The depth is 1 within the body, 2 within the list of owners, 3 within an
// owner and 4 within its slots.
class LayoutEvents final : public BodyEvents {
 public:
  LayoutEvents(const StopCheck& stop, v1::SetLayoutRequest* request)
      : BodyEvents(kMaxDepth, stop), request_(*request) {}

 private:
  static constexpr int kMaxDepth = 8;

  // The members of each depth, in the order of their bits in `seen_`.
  static constexpr std::array<std::string_view, 2> kOfBody = {"expected_revision", "owners"};
  static constexpr std::array<std::string_view, 2> kOfOwner = {"group", "slots"};
  static constexpr std::array<std::string_view, 2> kOfSlots = {"first_slot", "end_slot"};

  const std::array<std::string_view, 2>& Members() const {
    return depth() <= 1 ? kOfBody : depth() == 3 ? kOfOwner : kOfSlots;
  }
  // Returns the index of the level's members in `seen_` and `member_`.
  size_t Level() const { return depth() <= 1 ? 0 : depth() == 3 ? 1 : 2; }

  std::string OwnerPath() const { return Cat("owners[", request_.owners_size() - 1, "]"); }
  std::string PathOf(std::string_view member) const {
    if (depth() <= 1) return std::string(member);
    return Cat(OwnerPath(), depth() == 3 ? "." : ".slots.", member);
  }
  std::string Member() const { return PathOf(Members()[member_[Level()]]); }

  bool Key(std::string& key) override {
    const std::array<std::string_view, 2>& members = Members();
    for (size_t idx = 0; idx < members.size(); ++idx) {
      if (key != members[idx]) continue;
      member_[Level()] = idx;
      return !std::exchange(seen_[Level()][idx], true) || Wrong(Member(), "appears twice");
    }
    return Wrong(PathOf(Printable(key, kLongestQuote)),
                 Cat("is not a member (", members[0], " and ", members[1], " are)"));
  }

  bool Text(std::string& value) override {
    if (depth() != 3 || member_[1] != 0) return Refuse(Shown(value));
    request_.mutable_owners(request_.owners_size() - 1)->set_group(std::move(value));
    return true;
  }

  bool Integer(int64_t value) override { return Number(static_cast<double>(value), value); }

  bool Number(double, const Json& exact) override {
    const std::optional<uint64_t> number = Unsigned(exact);
    if (!number.has_value()) return Refuse(Shown(exact));
    if (depth() == 1 && member_[0] == 0) {
      request_.set_expected_revision(*number);
      return true;
    }
    if (depth() != 4 || *number > std::numeric_limits<uint32_t>::max()) return Refuse(Shown(exact));
    v1::PartitionInfo& slots = *request_.mutable_owners(request_.owners_size() - 1)->mutable_slots();
    if (member_[2] == 0) {
      slots.set_first_slot(static_cast<uint32_t>(*number));
    } else {
      slots.set_end_slot(static_cast<uint32_t>(*number));
    }
    return true;
  }

  bool StartList() override { return (depth() == 2 && member_[0] == 1) || Skip(); }
  bool EndList() override { return true; }

  bool StartObject() override {
    switch (depth()) {
      case 1:
        return true;
      case 3:
        if (static_cast<size_t>(request_.owners_size()) > collection::kMaxSlotOwners) {
          return Wrong("owners", Cat("has more than ", collection::kMaxSlotOwners, " groups"),
                       {collection::kMaxSlotOwners, ""});
        }
        request_.add_owners();
        seen_[1] = {};
        return true;
      case 4:
        if (member_[1] != 1) return Skip();
        request_.mutable_owners(request_.owners_size() - 1)->mutable_slots();
        seen_[2] = {};
        return true;
      default:
        return Skip();
    }
  }

  // The depth is that outside of the object.
  bool EndObject() override {
    switch (depth()) {
      case 0:
        return CheckSeen(seen_[0], kOfBody, "");
      case 2:
        return CheckSeen(seen_[1], kOfOwner, Cat(OwnerPath(), "."));
      case 3:
        return CheckSeen(seen_[2], kOfSlots, Cat(OwnerPath(), ".slots."));
      default:
        return true;
    }
  }

  bool CheckSeen(const std::array<bool, 2>& seen, const std::array<std::string_view, 2>& members,
                 std::string_view prefix) {
    for (size_t idx = 0; idx < members.size(); ++idx) {
      if (!seen[idx]) return Wrong(Cat(prefix, members[idx]), "is missing");
    }
    return true;
  }

  bool Refuse(std::string_view shown) override {
    switch (depth()) {
      case 0:
        return Fail("the body is not a JSON object");
      case 1:
        return WrongValue(Member(), shown, member_[0] == 0 ? ", not a whole number from 0 on" : ", not a list");
      case 2:
        return WrongValue(Cat("owners[", request_.owners_size(), "]"), shown, ", not an object with group and slots");
      case 3:
        return WrongValue(Member(), shown,
                          member_[1] == 0 ? ", not a text" : ", not an object with first_slot and end_slot");
      default:
        return WrongValue(Member(), shown, ", not a whole number from 0 to 4294967295");
    }
  }

  std::string MatrixPath() const override { return "owners"; }  // No matrix is read.

  v1::SetLayoutRequest& request_;
  // One element each for the body, the current owner and its slots: the current member, and which members were seen.
  std::array<size_t, 3> member_ = {};
  std::array<std::array<bool, 2>, 3> seen_ = {};
};

}  // namespace

absl::StatusOr<v1::SetLayoutRequest> ParseLayoutBody(const std::string& body) {
  v1::SetLayoutRequest request;
  const StopCheck never_stop;
  LayoutEvents events(never_stop, &request);
  if (absl::Status status = events.Read(body); !status.ok()) return status;
  return request;
}

}  // namespace maxsim::http
