// Fuzzes the settings of a shared collection. They are a value in NATS's key-value store, which every NATS client with
// the permission can write. A server creates collections from accepted settings.
#include "server/live/shared/settings_value.h"

#include <string>

#include "collection/field.h"
#include "kernels/limits.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

void FuzzSettings(std::string_view input) {
  const auto settings = live::ParseSettingsValue("docs", input);
  if (!settings.ok()) return RequireRefusal(settings.status());
  const collection::CreateOptions& options = settings->options;
  Require(options.name == "docs", "the value has no influence on the name");
  Require(options.dim >= kMinDim && options.dim <= kMaxDim, "a dimension that is accepted is in range");
  Require(!IsResidual(options.storage), "a live collection has no residual codes");
  Require(collection::CheckFields(options.fields).ok(), "fields that are accepted are valid");
  const std::string value = live::FormatSettingsValue(*settings);
  const auto again = live::ParseSettingsValue("docs", value);
  Require(again.ok() && live::FormatSettingsValue(*again) == value, "settings return from their value");
  Require(live::CheckSameSettings(*settings, *again).ok(), "settings are the same as themselves");
}

const Registration kSettingsTarget("settings", &FuzzSettings);

}  // namespace
}  // namespace maxsim::fuzz
