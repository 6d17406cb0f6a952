#include "server/service/payload_fields.h"

#include <algorithm>
#include <cstddef>

#include "collection/document_line.h"
#include "nlohmann/json.hpp"

namespace maxsim::service {
namespace {

// Returns where the string of well-formed JSON ends that begins with the quote at `at`: behind its last quote.
size_t EndOfString(std::string_view json, size_t at) {
  for (++at; json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return at + 1;
}

// Returns where the member of a well-formed object ends that begins at `at`: at the comma or the bracket behind it.
size_t EndOfMember(std::string_view json, size_t at) {
  for (int depth = 0;; ++at) {
    const char c = json[at];
    if (c == '"') {
      at = EndOfString(json, at) - 1;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == '}')) {
      return at;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

bool IsWanted(std::string_view quoted_name, const std::vector<std::string>& fields) {
  const bool has_escapes = quoted_name.find('\\') != std::string_view::npos;
  const std::string name = has_escapes ? nlohmann::json::parse(quoted_name).get<std::string>()
                                       : std::string(quoted_name.substr(1, quoted_name.size() - 2));
  return std::find(fields.begin(), fields.end(), name) != fields.end();
}

}  // namespace

std::string SelectFields(std::string_view payload, const std::vector<std::string>& fields) {
  if (!collection::CheckPayload(payload).ok()) return std::string(payload);
  std::string selected = "{";
  for (size_t at = payload.find_first_of("\"}"); payload[at] != '}';) {
    const size_t name_end = EndOfString(payload, at);
    const size_t end = EndOfMember(payload, name_end);
    if (IsWanted(payload.substr(at, name_end - at), fields)) {
      if (selected.size() > 1) selected += ',';
      selected += payload.substr(at, payload.find_last_not_of(" \t\r\n", end - 1) + 1 - at);
    }
    at = payload[end] == '}' ? end : payload.find('"', end);
  }
  return selected + '}';
}

}  // namespace maxsim::service
