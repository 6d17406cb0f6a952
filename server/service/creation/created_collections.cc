#include "server/service/creation/created_collections.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "nlohmann/json.hpp"

namespace maxsim::service {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxFileBytes = int64_t{64} << 20;

// Files without the key have version 1.
constexpr char kVersionKey[] = "format_version";
constexpr int64_t kCreatedFormatVersion = 1;

// JSON strings must be UTF-8, but the name of a folder need not be. So a path that is not UTF-8 is stored as base64,
// under the second key.
constexpr char kPath[] = "path";
constexpr char kPathInBase64[] = "path_base64";

// Reads the path of an entry, which must be an object, from either key. Returns false if the entry has no path.
bool ReadPath(const Json& entry, std::string& path) {
  if (const auto text = entry.find(kPath); text != entry.end() && text->is_string()) {
    path = text->get<std::string>();
    return true;
  }
  const auto bytes = entry.find(kPathInBase64);
  return bytes != entry.end() && bytes->is_string() && absl::Base64Unescape(bytes->get<std::string>(), &path);
}

std::string PathOf(const std::string& root) { return JoinPath(root, kCreatedCollectionsName); }

absl::StatusOr<std::vector<CreatedCollection>> Read(const std::string& root) {
  const std::string path = PathOf(root);
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMaxFileBytes);
  std::vector<CreatedCollection> list;
  if (absl::IsNotFound(text.status())) return list;
  if (!text.ok()) return text.status();
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto damaged = [&](std::string_view what) {
    return absl::DataLossError(Cat(path, ": ", what, "; repair it, or remove it and load its collections again"));
  };
  const Json version = json.is_object() ? json.value(kVersionKey, Json(kCreatedFormatVersion)) : Json();
  if (version.is_number_integer() && version > kCreatedFormatVersion) {
    return absl::FailedPreconditionError(
        Cat(path, ": ", kVersionKey, ": ", version.dump(), "; this version reads ", kCreatedFormatVersion));
  }
  if (!json.is_object() || !json.contains("collections") || !json["collections"].is_array()) {
    return damaged("is not a JSON object with a list \"collections\"");
  }
  for (const Json& entry : json["collections"]) {
    CreatedCollection created;
    for (const auto& [key, field] : {std::pair{"name", &created.name}, std::pair{"residency", &created.residency}}) {
      if (!entry.is_object() || !entry.contains(key) || !entry[key].is_string()) {
        return damaged(Cat("an entry of \"collections\" has no text \"", key, "\""));
      }
      *field = entry[key].get<std::string>();
    }
    if (!ReadPath(entry, created.path)) return damaged("an entry of \"collections\" has no text \"path\"");
    created.replicate = entry.value("replicate", Json(false)) == Json(true);
    list.push_back(std::move(created));
  }
  return list;
}

absl::Status Write(const std::string& root, const std::vector<CreatedCollection>& list) {
  Json entries = Json::array();
  for (const CreatedCollection& created : list) {
    Json entry = {{"name", created.name}, {"residency", created.residency}, {"replicate", created.replicate}};
    if (IsUtf8(created.path)) {
      entry[kPath] = created.path;
    } else {
      entry[kPathInBase64] = absl::Base64Escape(created.path);
    }
    entries.push_back(std::move(entry));
  }
  const Json json = {{kVersionKey, kCreatedFormatVersion}, {"collections", entries}};
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(PathOf(root));
  if (!file.ok()) return file.status();
  if (absl::Status status = (*file)->Write(text); !status.ok()) return status;
  if (absl::Status status = (*file)->Commit(); !status.ok()) return status;
  return SyncFolder(root);
}

bool RemoveName(const std::string& name, std::vector<CreatedCollection>& list) {
  return std::erase_if(list, [&](const CreatedCollection& created) { return created.name == name; }) > 0;
}

}  // namespace

absl::StatusOr<std::vector<CreatedCollection>> CreatedCollections::List(const std::string& root) const {
  const MutexLock lock(&mutex_);
  return Read(root);
}

absl::Status CreatedCollections::Add(const std::string& root, const CreatedCollection& created) {
  const MutexLock lock(&mutex_);
  absl::StatusOr<std::vector<CreatedCollection>> list = Read(root);
  if (!list.ok()) return list.status();
  RemoveName(created.name, *list);
  list->push_back(created);
  return Write(root, *list);
}

absl::Status CreatedCollections::Remove(const std::string& root, const std::string& name) {
  const MutexLock lock(&mutex_);
  absl::StatusOr<std::vector<CreatedCollection>> list = Read(root);
  if (!list.ok()) return list.status();
  return RemoveName(name, *list) ? Write(root, *list) : absl::OkStatus();
}

absl::Status CreatedCollections::RemoveOf(const std::string& root, const std::string& name, const std::string& path) {
  const MutexLock lock(&mutex_);
  absl::StatusOr<std::vector<CreatedCollection>> list = Read(root);
  if (!list.ok()) return list.status();
  const auto is_wanted = [&](const CreatedCollection& created) { return created.name == name && created.path == path; };
  return std::erase_if(*list, is_wanted) > 0 ? Write(root, *list) : absl::OkStatus();
}

}  // namespace maxsim::service
