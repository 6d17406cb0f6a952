// JSON values as text.
#pragma once

#include <string>

#include "nlohmann/json.hpp"

namespace maxsim::http {

// Returns the text of a value. Bytes that are not UTF-8 become replacement characters.
inline std::string Dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace maxsim::http
