// Errors of a part's request in terms of the client's.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace maxsim::cluster {

// Returns a message about `field`[K] as one about `field`[indices[K]], where an item of a part's request stands in the
// client's. Other messages stay as they are.
template <typename Index>
std::string WithClientsIndex(const std::string& message, const std::string& field, const std::vector<Index>& indices) {
  const std::string opening = absl::StrCat(field, "[");
  if (!message.starts_with(opening)) return message;
  const size_t end = message.find(']', opening.size());
  size_t idx = 0;
  if (end == std::string::npos || !absl::SimpleAtoi(message.substr(opening.size(), end - opening.size()), &idx) ||
      idx >= indices.size()) {
    return message;
  }
  return absl::StrCat(opening, indices[idx], message.substr(end));
}

}  // namespace maxsim::cluster
