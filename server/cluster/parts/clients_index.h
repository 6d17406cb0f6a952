// Translates errors about the request to one group into errors about the client's request.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/error_details.h"
#include "client/field_path.h"

namespace maxsim::cluster {

// Takes an error about item K of `list` in a part's request, or about a field of it, and returns it with indices[K],
// the item's index in the client's request. Other errors stay as they are.
template <typename Index>
absl::Status WithClientsIndex(const absl::Status& status, std::string_view list, const std::vector<Index>& indices) {
  const std::string field = client::FieldOf(status);
  const std::optional<size_t> idx = client::IndexIn(field, list);
  if (!idx.has_value() || *idx >= indices.size()) return status;
  return client::WithField(status, client::WithIndex(field, list, static_cast<size_t>(indices[*idx])));
}

// Does what WithClientsIndex does for each list of documents or ids in requests of the Documents service.
template <typename Index>
absl::Status WithClientsItem(const absl::Status& status, const std::vector<Index>& indices) {
  absl::Status changed = status;
  for (const std::string_view list : {"documents", "string_ids.ids", "int_ids.ids"}) {
    changed = WithClientsIndex(changed, list, indices);
  }
  return changed;
}

}  // namespace maxsim::cluster
