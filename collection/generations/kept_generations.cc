#include "collection/generations/kept_generations.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json_events.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/manifest_parser.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kRevisionKey = "reload_revision";

absl::Status WithAdvice(const absl::Status& status) {
  return {status.code(), Cat(std::string(status.message()), "; remove the file to serve the published generation")};
}

// Reads the revision of a served manifest, a key of the outermost object.
class RevisionEvents : public JsonEvents {
 public:
  RevisionEvents() : JsonEvents(kMaxDepth, Text::kSecret) {}
  int64_t revision() const { return revision_; }

 private:
  static constexpr int kMaxDepth = 8;  // as for manifests

  bool OnKey(std::string& key) override {
    is_next_ = depth() == 1 && key == kRevisionKey;
    return true;
  }
  bool OnInteger(int64_t value) override {
    if (std::exchange(is_next_, false)) revision_ = value;
    return true;
  }

  bool is_next_ = false;
  int64_t revision_ = 0;
};

// Returns nullopt if there is no such file.
absl::StatusOr<std::optional<std::string>> ReadText(const Folder& folder, std::string_view name) {
  const absl::StatusOr<InputFile> file = folder.Open(name);
  if (absl::IsNotFound(file.status())) return std::nullopt;
  if (!file.ok()) return file.status();
  absl::StatusOr<std::string> text = ReadSmallFile(*file, kMaxManifestFileBytes);
  if (!text.ok()) return text.status();
  return *std::move(text);
}

absl::StatusOr<Manifest> Parse(const Folder& folder, std::string_view name, const std::string& text) {
  absl::StatusOr<Manifest> manifest = ParseManifest(text, JoinPath(folder.path(), name));
  if (absl::IsInvalidArgument(manifest.status())) return absl::DataLossError(manifest.status().message());
  return manifest;
}

absl::Status WriteText(const std::string& text, const std::string& path) {
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  if (absl::Status status = (*file)->Write(text); !status.ok()) return status;
  return (*file)->Commit();
}

}  // namespace

absl::StatusOr<std::optional<ServedGeneration>> ReadServed(const Folder& folder) {
  const absl::StatusOr<std::optional<std::string>> text = ReadText(folder, kServedManifestName);
  if (!text.ok()) return WithAdvice(text.status());
  if (!text->has_value()) return std::nullopt;
  absl::StatusOr<Manifest> manifest = Parse(folder, kServedManifestName, **text);
  if (!manifest.ok()) return WithAdvice(manifest.status());
  RevisionEvents events;
  if (absl::Status status = events.Parse(**text); !status.ok()) {
    return WithAdvice(
        absl::DataLossError(Cat(JoinPath(folder.path(), kServedManifestName), ": ", std::string(status.message()))));
  }
  if (events.revision() < 1 || events.revision() > static_cast<int64_t>(kMaxReloadRevision)) {
    return WithAdvice(absl::DataLossError(Cat(JoinPath(folder.path(), kServedManifestName), ": ", kRevisionKey, ": ",
                                              events.revision(), ", expected 1 to ", kMaxReloadRevision)));
  }
  return ServedGeneration{.manifest = *std::move(manifest), .revision = static_cast<uint64_t>(events.revision())};
}

absl::Status WriteServed(const ServedGeneration& served, const std::string& folder) {
  std::string text = FormatManifest(served.manifest);
  text.replace(0, 1, Cat("{\n  \"", kRevisionKey, "\": ", served.revision, ","));
  // A name of its own, because two servers that share the folder may write at the same time.
  absl::BitGen random;
  const std::string path = JoinPath(folder, kServedManifestName);
  const std::string own = absl::StrFormat("%s.%016x", path, absl::Uniform<uint64_t>(random));
  if (absl::Status status = WriteText(text, own); !status.ok()) return status;
  if (std::rename(own.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(own.c_str());
    return ErrnoStatus(error, "cannot replace", path);
  }
  return SyncFolder(folder);
}

absl::StatusOr<std::optional<Manifest>> ReadPrevious(const Folder& folder) {
  const absl::StatusOr<std::optional<std::string>> text = ReadText(folder, kPreviousManifestName);
  if (!text.ok()) return text.status();
  if (!text->has_value()) return std::nullopt;
  absl::StatusOr<Manifest> manifest = Parse(folder, kPreviousManifestName, **text);
  if (!manifest.ok()) return manifest.status();
  return *std::move(manifest);
}

absl::StatusOr<Manifest> FindGeneration(const Folder& folder, int64_t generation) {
  std::vector<std::string> there;
  const auto is_wanted = [&](const Manifest& manifest, std::string_view name) {
    there.push_back(Cat(manifest.generation, " (", name, ")"));
    return manifest.generation == generation;
  };
  absl::StatusOr<Manifest> published = ReadManifest(folder);
  if (published.ok() && is_wanted(*published, kManifestFileName)) return published;
  absl::StatusOr<std::optional<ServedGeneration>> served = ReadServed(folder);
  if (!served.ok()) return served.status();
  if (served->has_value() && is_wanted((*served)->manifest, kServedManifestName)) return (*served)->manifest;
  absl::StatusOr<std::optional<Manifest>> previous = ReadPrevious(folder);
  if (!previous.ok()) return previous.status();
  if (previous->has_value() && is_wanted(**previous, kPreviousManifestName)) return **std::move(previous);
  return absl::OutOfRangeError(Cat("no generation ", generation, " in ", folder.path(), ", which has ",
                                   there.empty() ? std::string("none") : Cat("only ", absl::StrJoin(there, ", "))));
}

absl::Status KeepPrevious(const std::string& folder) {
  const Folder here(folder);
  const absl::StatusOr<std::optional<ServedGeneration>> served = ReadServed(here);
  const std::string path = JoinPath(folder, kPreviousManifestName);
  if (served.ok() && served->has_value()) return WriteText(FormatManifest((*served)->manifest), path);
  const absl::StatusOr<Manifest> published = ReadManifest(here);
  if (absl::IsNotFound(published.status())) return absl::OkStatus();
  return published.ok() ? WriteText(FormatManifest(*published), path) : published.status();
}

}  // namespace maxsim::collection
