#include "server/service/request/payload_fields.h"

#include <algorithm>
#include <cstddef>

#include "nlohmann/json.hpp"

namespace maxsim::service {
namespace {

constexpr size_t kNone = std::string_view::npos;

// Returns the position after the closing quote of the JSON string whose opening quote is at `at`, or kNone if it has
// none.
size_t EndOfString(std::string_view json, size_t at) {
  for (++at; at < json.size() && json[at] != '"'; ++at) {
    if (json[at] == '\\') ++at;
  }
  return at < json.size() ? at + 1 : kNone;
}

// Returns the position of the comma or bracket that ends the member of a JSON object which begins at `at`, or kNone.
size_t EndOfMember(std::string_view json, size_t at) {
  for (int depth = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '"') {
      at = EndOfString(json, at);
      if (at == kNone) return kNone;
      --at;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == '}')) {
      return at;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return kNone;
}

bool IsWanted(std::string_view quoted_name, const std::vector<std::string>& fields) {
  const bool has_escapes = quoted_name.find('\\') != std::string_view::npos;
  std::string name(quoted_name.substr(1, quoted_name.size() - 2));
  if (has_escapes) {
    const nlohmann::json parsed = nlohmann::json::parse(quoted_name, nullptr, /*allow_exceptions=*/false);
    if (parsed.is_string()) name = parsed.get<std::string>();
  }
  return std::find(fields.begin(), fields.end(), name) != fields.end();
}

}  // namespace

std::string SelectFields(std::string_view payload, const std::vector<std::string>& fields) {
  // Payloads are normally JSON. A payload that is not JSON is returned whole.
  if (payload.empty() || payload[0] != '{') return std::string(payload);
  std::string selected = "{";
  for (size_t at = payload.find_first_of("\"}"); at == kNone || payload[at] != '}';) {
    const size_t name_end = at == kNone ? kNone : EndOfString(payload, at);
    const size_t end = name_end == kNone ? kNone : EndOfMember(payload, name_end);
    if (end == kNone) return std::string(payload);
    if (IsWanted(payload.substr(at, name_end - at), fields)) {
      if (selected.size() > 1) selected += ',';
      selected += payload.substr(at, payload.find_last_not_of(" \t\r\n", end - 1) + 1 - at);
    }
    at = payload[end] == '}' ? end : payload.find('"', end);
  }
  return selected + '}';
}

}  // namespace maxsim::service
