#include "server/shard/shard.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "server/shard/file.h"
#include "server/shard/shard_contents.h"
#include "server/shard/stop.h"
#include "server/shard/text.h"

namespace maxsim::shard {

struct Shard::State {
  std::string path;
  FileBytes bytes;
  ShardContents contents;
  DocumentsView documents;
};

namespace {

absl::Status DataLoss(std::string_view path, std::string_view message) {
  return absl::DataLossError(Cat(path, ": ", message));
}

// The first difference between a shard and what the manifest says of it.
std::optional<std::string> Difference(const ShardContents& shard, const Manifest& manifest, const ShardEntry& entry) {
  const auto says = [](std::string_view what, const auto& value, const auto& expected) {
    return Cat(what, ": ", value, ", but the manifest says ", expected);
  };
  if (shard.storage != manifest.storage) return says("storage", Name(shard.storage), Name(manifest.storage));
  if (shard.dim != manifest.dim) return says("dim", shard.dim, manifest.dim);
  if (shard.id_type != manifest.id_type) return says("id type", Name(shard.id_type), Name(manifest.id_type));
  if (shard.has_payloads != manifest.has_payloads) {
    return says("payloads", shard.has_payloads ? "present" : "absent", manifest.has_payloads ? "present" : "absent");
  }
  if (shard.num_documents != entry.num_documents) return says("documents", shard.num_documents, entry.num_documents);
  if (shard.num_tokens != entry.num_tokens) return says("tokens", shard.num_tokens, entry.num_tokens);
  return std::nullopt;
}

}  // namespace

Shard::Shard(std::unique_ptr<State> state) : state_(std::move(state)) {}
Shard::~Shard() = default;

absl::StatusOr<std::shared_ptr<const Shard>> Shard::Open(const std::string& folder, const Manifest& manifest,
                                                         const ShardEntry& entry, Access access, bool check_checksum,
                                                         const std::atomic<bool>* stop) {
  std::string path = JoinPath(folder, entry.file);
  absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  if (file->size() != entry.num_bytes) {
    return DataLoss(path, Cat(file->size(), " bytes, but the manifest says ", entry.num_bytes));
  }
  absl::StatusOr<FileBytes> bytes = access == Access::kMapped ? FileBytes::Map(*file) : FileBytes::Copy(*file, stop);
  if (!bytes.ok()) return bytes.status();
  if (check_checksum) {
    Checksum checksum;
    for (size_t begin = 0; begin < bytes->size(); begin += kStopBlockBytes) {
      if (Stopped(stop)) return StoppedError();
      checksum.Update(bytes->data() + begin, std::min(kStopBlockBytes, bytes->size() - begin));
    }
    if (const std::string found = checksum.Format(); found != entry.checksum) {
      return DataLoss(path, Cat("checksum: ", found, ", but the manifest says ", entry.checksum));
    }
  }
  absl::StatusOr<ShardContents> contents = ParseShard(bytes->view());
  if (!contents.ok()) {
    return DataLoss(path, std::string_view(contents.status().message().data(), contents.status().message().size()));
  }
  if (std::optional<std::string> difference = Difference(*contents, manifest, entry))
    return DataLoss(path, *difference);
  auto state = std::make_unique<State>(State{std::move(path), *std::move(bytes), *std::move(contents), {}});
  state->documents = state->contents.documents();
  return std::shared_ptr<const Shard>(new Shard(std::move(state)));
}

const DocumentsView& Shard::documents() const { return state_->documents; }
IdType Shard::id_type() const { return state_->contents.id_type; }
std::string_view Shard::string_id(int64_t ordinal) const { return state_->contents.string_id(ordinal); }
int64_t Shard::int_id(int64_t ordinal) const { return state_->contents.ids[ordinal]; }
std::string_view Shard::payload(int64_t ordinal) const { return state_->contents.payload(ordinal); }
const std::string& Shard::path() const { return state_->path; }
int64_t Shard::num_bytes() const { return static_cast<int64_t>(state_->bytes.size()); }

}  // namespace maxsim::shard
