#include "collection/collection_name.h"

#include "base/text.h"

namespace maxsim::collection {

bool IsCollectionName(std::string_view name) { return CheckCollectionName(name).ok(); }

absl::Status CheckCollectionName(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (name.empty() || name.size() > kMaxCollectionNameBytes ||
      name.find_first_not_of(kAllowed) != std::string_view::npos) {
    return Invalid("name: ", Quote(name), " is not 1 to ", kMaxCollectionNameBytes, " of A-Z a-z 0-9 . _ -");
  }
  if (name.find_first_not_of('.') == std::string_view::npos) return Invalid("name: ", Quote(name), " is only dots");
  return absl::OkStatus();
}

}  // namespace maxsim::collection
