#include "collection/collection_name.h"

#include "base/text.h"

namespace maxsim::collection {

bool IsCollectionName(std::string_view name) { return CollectionNameProblem(name).empty(); }

std::string CollectionNameProblem(std::string_view name) {
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (name.empty() || name.size() > kMaxCollectionNameBytes ||
      name.find_first_not_of(kAllowed) != std::string_view::npos) {
    return Cat(Quote(name), " must be 1 to ", kMaxCollectionNameBytes, " characters of A-Z a-z 0-9 . _ -");
  }
  return name.find_first_not_of('.') == std::string_view::npos ? Cat(Quote(name), " is only dots") : "";
}

absl::Status CheckCollectionName(std::string_view name) {
  const std::string problem = CollectionNameProblem(name);
  return problem.empty() ? absl::OkStatus() : Invalid("name: ", problem);
}

}  // namespace maxsim::collection
