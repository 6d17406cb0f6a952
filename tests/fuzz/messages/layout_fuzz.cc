// Fuzzes the two forms of a layout (which group owns which slots): the value in the key-value store, and the body of
// the HTTP call that sets it. An accepted layout must equal what a parser that builds a tree reads.
#include <string>
#include <vector>

#include "client/info_json.h"
#include "nlohmann/json.hpp"
#include "server/http/collections/layout_body.h"
#include "server/live/shared/layout_value.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

using nlohmann::json;

void CheckValue(std::string_view input) {
  const auto owners = live::ParseLayoutValue(input);
  if (!owners.ok()) return RequireRefusal(owners.status());
  Require(!collection::CheckSlotOwners(*owners).has_value(), "owners that are accepted are valid");
  const auto again = live::ParseLayoutValue(live::FormatLayoutValue(*owners));
  Require(again.ok() && *again == *owners, "owners return from their value");
}

void CheckBody(const std::string& body) {
  const auto request = http::ParseLayoutBody(body);
  if (!request.ok()) return RequireRefusal(request.status());
  v1::SlotLayout layout;
  *layout.mutable_owners() = request->owners();
  const json sent = json::parse(body, nullptr, /*allow_exceptions=*/false);
  Require(sent.is_object() && sent.size() == 2, "a body has its two members");
  Require(sent["expected_revision"] == json(request->expected_revision()), "the revision is the body's");
  Require(sent["owners"] == client::LayoutJson<json>(layout)["owners"], "the owners are the body's");
}

void FuzzLayout(std::string_view input) {
  CheckValue(input);
  CheckBody(std::string(input));
}

const Registration kLayoutTarget("layout", &FuzzLayout);

}  // namespace
}  // namespace maxsim::fuzz
