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

}  // namespace maxsim::live
