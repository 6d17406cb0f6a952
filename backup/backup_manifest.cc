#include "backup/backup_manifest.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/text.h"
#include "base/unique_json.h"
#include "collection/collection_name.h"
#include "collection/manifest.h"
#include "collection/partition/snapshot_path.h"
#include "nlohmann/json.hpp"

namespace maxsim::backup {
namespace {

using collection::SlotRange;
using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr char kFormat[] = "maxsimd-backup";
constexpr uint64_t kFormatVersion = 1;
constexpr int kMaxDepth = 6;
constexpr size_t kIdDigits = 16, kSha256Digits = 64;

absl::Status Wrong(const std::string& field, const std::string& problem) {
  return absl::DataLossError(Cat(kManifestKey, ": ", field, " ", problem));
}

// Reads the members of one object of the manifest. After an error, further calls return empty values.
class Members {
 public:
  Members(const Json& json, std::string path, absl::Status& status)
      : json_(json), path_(std::move(path)), status_(status) {
    if (!json_.is_object()) Fail("", "is not an object");
  }

  std::string Text(const char* name, size_t max_bytes = kMaxManifestTextBytes) {
    const Json* const value = Find(name);
    if (value == nullptr) return "";
    if (!value->is_string() || value->get_ref<const std::string&>().size() > max_bytes) {
      Fail(name, Cat("is not a text of at most ", max_bytes, " bytes"));
      return "";
    }
    return value->get<std::string>();
  }

  uint64_t Number(const char* name, uint64_t max) {
    const Json* const value = Find(name);
    if (value == nullptr) return 0;
    if (!value->is_number_unsigned() || value->get<uint64_t>() > max) {
      Fail(name, Cat("is not an integer of 0 to ", max));
      return 0;
    }
    return value->get<uint64_t>();
  }

  // Returns null if the member is not a list of 1 to `max_size` values.
  const Json* List(const char* name, size_t max_size) {
    const Json* const value = Find(name);
    if (value == nullptr) return nullptr;
    if (value->is_array() && !value->empty() && value->size() <= max_size) return value;
    Fail(name, Cat("is not a list of 1 to ", max_size, " values"));
    return nullptr;
  }

  // Returns the member, or null if there is none.
  const Json* Optional(const char* name) const {
    if (!json_.is_object()) return nullptr;
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }

  void Fail(const std::string& name, const std::string& problem) {
    const std::string field = path_.empty() || name.empty() ? Cat(path_, name) : Cat(path_, ".", name);
    if (status_.ok()) status_ = Wrong(field.empty() ? "the text" : field, problem);
  }

 private:
  const Json* Find(const char* name) {
    if (!status_.ok()) return nullptr;
    const Json* const value = Optional(name);
    if (value == nullptr) Fail(name, "is missing");
    return value;
  }

  const Json& json_;
  const std::string path_;
  absl::Status& status_;
};

bool IsHex(std::string_view text, size_t num_digits) {
  return text.size() == num_digits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

BackupFile ParseFile(const Json& json, const std::string& path, absl::Status& status) {
  Members members(json, path, status);
  BackupFile file{.path = members.Text("path", collection::kMaxSnapshotPathBytes),
                  .num_bytes = members.Number("bytes", uint64_t{1} << 50),
                  .sha256 = members.Text("sha256")};
  if (!status.ok()) return file;
  if (const std::string problem = collection::SnapshotPathProblem(file.path); !problem.empty()) {
    members.Fail("path", Cat("is ", Quote(file.path), ", which ", problem));
  }
  if (!IsHex(file.sha256, kSha256Digits)) members.Fail("sha256", "is not 64 lower-case hex digits");
  return file;
}

BackupPart ParsePart(const Json& json, const std::string& path, size_t max_files, absl::Status& status) {
  Members members(json, path, status);
  BackupPart part;
  part.server = members.Text("server");
  const uint64_t first = members.Number("first_slot", collection::kNumSlots);
  const uint64_t end = members.Number("end_slot", collection::kNumSlots);
  part.sequence = members.Number("sequence", static_cast<uint64_t>(collection::kMaxLogSequence));
  part.num_documents = members.Number("documents", std::numeric_limits<int64_t>::max());
  const Json* const files = members.List("files", max_files);
  if (status.ok() && first >= end) members.Fail("first_slot", Cat("is ", first, "; must be below end_slot, ", end));
  if (!status.ok()) return part;
  part.slots = {.first = static_cast<int32_t>(first), .end = static_cast<int32_t>(end)};
  std::set<std::string> paths;
  for (size_t i = 0; i < files->size() && status.ok(); ++i) {
    part.files.push_back(ParseFile((*files)[i], Cat(path, ".files[", i, "]"), status));
    if (status.ok() && !paths.insert(part.files.back().path).second) {
      members.Fail("files", Cat("has ", part.files.back().path, " twice"));
    }
  }
  if (status.ok() && paths.count(std::string(collection::kManifestFileName)) == 0) {
    members.Fail("files", Cat("has no ", collection::kManifestFileName));
  }
  return part;
}

OrderedJson ToJson(const BackupPart& part) {
  OrderedJson files = OrderedJson::array();
  for (const BackupFile& file : part.files) {
    files.push_back({{"path", file.path}, {"bytes", file.num_bytes}, {"sha256", file.sha256}});
  }
  return {{"server", part.server},     {"first_slot", part.slots.first},  {"end_slot", part.slots.end},
          {"sequence", part.sequence}, {"documents", part.num_documents}, {"files", std::move(files)}};
}

}  // namespace

uint64_t BackupManifest::position() const {
  uint64_t lowest = std::numeric_limits<uint64_t>::max();
  for (const BackupPart& part : parts) lowest = std::min(lowest, part.sequence);
  return parts.empty() ? 0 : lowest;
}

uint64_t BackupManifest::complete_at() const {
  uint64_t highest = 0;
  for (const BackupPart& part : parts) highest = std::max(highest, part.sequence);
  return highest;
}

uint64_t BackupManifest::num_bytes() const {
  uint64_t sum = 0;
  for (const BackupPart& part : parts) {
    for (const BackupFile& file : part.files) sum += file.num_bytes;
  }
  return sum;
}

std::string KeyOf(std::string_view id, size_t part, std::string_view path) {
  return Cat("data-", id, "/part-", part, "/", path);
}

absl::StatusOr<SlotRange> CoveredSlots(const std::vector<BackupPart>& parts) {
  std::vector<SlotRange> ranges;
  for (const BackupPart& part : parts) ranges.push_back(part.slots);
  if (ranges.empty()) return absl::FailedPreconditionError("the backup has no part");
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  SlotRange covered = ranges.front();
  for (const SlotRange& range : ranges) {
    if (range.first > covered.end) {
      return absl::FailedPreconditionError(
          Cat("no part has the slots ", covered.end, " .. ", range.first - 1, " between those of others"));
    }
    covered.end = std::max(covered.end, range.end);
  }
  return covered;
}

std::string FormatManifest(const BackupManifest& manifest) {
  OrderedJson json = {{"format", kFormat},
                      {"version", kFormatVersion},
                      {"id", manifest.id},
                      {"collection", manifest.collection},
                      {"created_at", manifest.created_at},
                      {"created_by", manifest.created_by},
                      {"position", manifest.position()},
                      {"complete_at", manifest.complete_at()}};
  if (manifest.stream.has_value()) {
    json["stream"] = {{"name", manifest.stream->name}, {"created_unix_ns", manifest.stream->created_ns}};
  }
  json["parts"] = OrderedJson::array();
  for (const BackupPart& part : manifest.parts) json["parts"].push_back(ToJson(part));
  return json.dump(1, ' ', /*ensure_ascii=*/false, OrderedJson::error_handler_t::replace) + "\n";
}

absl::StatusOr<BackupManifest> ParseManifest(std::string_view text) {
  if (text.size() > kMaxManifestBytes) {
    return Wrong("the text", Cat("has ", text.size(), " bytes, more than the limit ", kMaxManifestBytes));
  }
  const absl::StatusOr<Json> json = ParseUniqueJson(text, kMaxDepth);
  if (!json.ok())
    return Wrong("the text",
                 Cat("is not the JSON of a backup: ",
                     Printable(std::string_view(json.status().message().data(), json.status().message().size()),
                               kMaxManifestTextBytes)));
  absl::Status status;
  Members members(*json, "", status);
  if (members.Text("format") != kFormat) members.Fail("format", Cat("is not ", Quote(kFormat)));
  const uint64_t version = members.Number("version", std::numeric_limits<uint64_t>::max());
  if (status.ok() && version != kFormatVersion) {
    return absl::FailedPreconditionError(
        Cat(kManifestKey, ": version is ", version, "; this program knows version ", kFormatVersion));
  }
  BackupManifest manifest{.id = members.Text("id"),
                          .collection = members.Text("collection"),
                          .created_at = members.Text("created_at"),
                          .created_by = members.Text("created_by"),
                          .stream = std::nullopt,
                          .parts = {}};
  if (status.ok() && !IsHex(manifest.id, kIdDigits)) members.Fail("id", "is not 16 lower-case hex digits");
  if (status.ok() && !collection::CheckCollectionName(manifest.collection).ok()) {
    members.Fail("collection", Cat("is ", Quote(manifest.collection), ", which is no name of a collection"));
  }
  if (const Json* const stream = members.Optional("stream"); stream != nullptr) {
    Members of_stream(*stream, "stream", status);
    manifest.stream =
        collection::LogStream{.name = of_stream.Text("name"),
                              .created_ns = of_stream.Number("created_unix_ns", std::numeric_limits<uint64_t>::max())};
  }
  const Json* const parts = members.List("parts", kMaxBackupParts);
  if (!status.ok()) return status;
  // The size of the text already limits the number of files, so this limit never applies.
  const size_t max_files = text.size();
  for (size_t i = 0; i < parts->size() && status.ok(); ++i) {
    manifest.parts.push_back(ParsePart((*parts)[i], Cat("parts[", i, "]"), max_files, status));
  }
  if (!status.ok()) return status;
  const absl::StatusOr<SlotRange> slots = CoveredSlots(manifest.parts);
  if (!slots.ok()) return Wrong("parts", Cat("leave a gap: ", std::string(slots.status().message())));
  if (members.Number("position", manifest.position()) != manifest.position() && status.ok()) {
    members.Fail("position", Cat("must be the lowest sequence of the parts, ", manifest.position()));
  }
  if (!status.ok()) return status;
  return manifest;
}

}  // namespace maxsim::backup
