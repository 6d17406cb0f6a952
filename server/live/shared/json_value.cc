#include "server/live/shared/json_value.h"

#include <cstddef>

#include "base/text.h"

namespace maxsim::live {

using Json = nlohmann::json;

std::string QuoteJson(const Json& value) {
  constexpr size_t kLongestJsonQuote = 64;
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return Printable(value.dump(-1, ' ', false, Json::error_handler_t::replace), kLongestJsonQuote);
}

absl::Status CheckFormatVersion(const Json& value, uint64_t known) {
  const auto version = value.find(kFormatVersionKey);
  if (version == value.end() ? known == 1 : *version == known) return absl::OkStatus();
  const std::string given = version == value.end() ? "1" : QuoteJson(*version);
  return Invalid(kFormatVersionKey, ": ", given, "; this version reads ", known);
}

}  // namespace maxsim::live
