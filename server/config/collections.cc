#include "server/config/collections.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "collection/collection_name.h"

namespace maxsim::config {
namespace {

// Returns the word after a path's last comma if it has at least three letters, all of them lower-case: an option such
// as "live", or a misspelt one. Returns "" otherwise.
std::string_view LastWord(std::string_view path) {
  const size_t comma = path.rfind(',');
  if (comma == std::string_view::npos) return {};
  const std::string_view word = path.substr(comma + 1);
  const bool plain =
      std::all_of(word.begin(), word.end(), [](char c) { return absl::ascii_islower(static_cast<unsigned char>(c)); });
  return plain && word.size() >= 3 ? word : std::string_view();
}

}  // namespace

absl::StatusOr<CollectionConfig> ParseCollection(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", std::string(text), "\" is not NAME=PATH or NAME=PATH[,RESIDENCY][,replicate][,live]"));
  }
  CollectionConfig collection;
  collection.name = std::string(text.substr(0, equals));
  std::string_view path = text.substr(equals + 1);
  // Options are at the end: NAME=PATH,host,live. Other commas belong to the path.
  bool has_residency = false, has_replicate = false, has_live = false;
  for (std::string_view word = LastWord(path); !word.empty(); word = LastWord(path)) {
    const auto residency = store::ResidencyFromName(word);
    if (residency.has_value() && !std::exchange(has_residency, true)) {
      collection.residency = *residency;
    } else if (word == "replicate" && !std::exchange(has_replicate, true)) {
      collection.replication = store::Replication::kOn;
    } else if (word == "live" && !std::exchange(has_live, true)) {
      collection.live = true;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("collection ", collection.name, ": \",", std::string(word),
                                                     "\" is neither a residency (auto, gpu, host, disk) nor replicate "
                                                     "or live, once each; if the path ends like that, set "
                                                     "it in the configuration file"));
    }
    path.remove_suffix(word.size() + 1);
  }
  collection.path = std::string(path);
  if (absl::Status status = ValidateCollection(collection); !status.ok()) return status;
  return collection;
}

absl::Status ValidateCollection(const CollectionConfig& collection) {
  if (!collection::IsCollectionName(collection.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("name \"", collection.name, "\" must be 1 to 128 characters of A-Z a-z 0-9 . _ -"));
  }
  if (collection.path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("collection ", collection.name, " has no path"));
  }
  return absl::OkStatus();
}

std::string CollectionKey(std::string_view name) { return absl::StrCat("collections.", std::string(name)); }

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
