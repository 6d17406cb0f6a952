#include "client/field_path.h"

#include <charconv>
#include <system_error>

namespace maxsim::client {

bool IsWithin(std::string_view path, std::string_view outer) {
  if (!path.starts_with(outer)) return false;
  return path.size() == outer.size() || path[outer.size()] == '.' || path[outer.size()] == '[';
}

std::string Rebased(std::string_view path, std::string_view outer, std::string_view replacement) {
  return std::string(replacement).append(path.substr(outer.size()));
}

std::optional<size_t> IndexIn(std::string_view path, std::string_view list) {
  if (!IsWithin(path, list)) return std::nullopt;
  path.remove_prefix(list.size());
  size_t idx = 0;
  if (!path.starts_with('[')) return std::nullopt;
  const char* const end = path.data() + path.size();
  const auto [next, error] = std::from_chars(path.data() + 1, end, idx);
  if (error != std::errc() || next == end || *next != ']') return std::nullopt;
  return idx;
}

std::string WithIndex(std::string_view path, std::string_view list, size_t idx) {
  std::string changed(list);
  changed.append("[").append(std::to_string(idx));
  return changed.append(path.substr(path.find(']', list.size())));
}

}  // namespace maxsim::client
