#include "server/config/collections.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace maxsim::config {

bool IsCollectionName(std::string_view name) {
  if (name.empty() || name.size() > 128 || name.find_first_not_of('.') == std::string_view::npos) return false;
  return std::all_of(name.begin(), name.end(), [](char letter) {
    return absl::ascii_isalnum(static_cast<unsigned char>(letter)) || letter == '.' || letter == '_' || letter == '-';
  });
}

absl::StatusOr<CollectionConfig> ParseCollection(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", std::string(text), "\" is not NAME=PATH or NAME=PATH[,RESIDENCY][,replicate]"));
  }
  CollectionConfig collection;
  collection.name = std::string(text.substr(0, equals));
  std::string_view path = text.substr(equals + 1);
  // Only known words after the last commas are such: a path may hold commas.
  if (constexpr std::string_view kReplicate = ",replicate";
      absl::EndsWith(std::string(path), std::string(kReplicate))) {
    collection.replication = store::Replication::kOn;
    path.remove_suffix(kReplicate.size());
  }
  if (const size_t comma = path.rfind(','); comma != std::string_view::npos) {
    if (const auto residency = store::ResidencyFromName(path.substr(comma + 1)); residency.has_value()) {
      collection.residency = *residency;
      path = path.substr(0, comma);
    }
  }
  collection.path = std::string(path);
  if (absl::Status status = ValidateCollection(collection); !status.ok()) return status;
  return collection;
}

absl::Status ValidateCollection(const CollectionConfig& collection) {
  if (!IsCollectionName(collection.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("name \"", collection.name, "\" is not 1 to 128 of A-Z a-z 0-9 . _ -"));
  }
  if (collection.path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("collection ", collection.name, " has no path"));
  }
  return absl::OkStatus();
}

void MergeCollection(CollectionConfig collection, std::vector<CollectionConfig>& collections) {
  const auto same = std::find_if(collections.begin(), collections.end(),
                                 [&](const CollectionConfig& other) { return other.name == collection.name; });
  if (same == collections.end()) {
    collections.push_back(std::move(collection));
  } else {
    *same = std::move(collection);
  }
}

}  // namespace maxsim::config
