#include "collection/shard.h"

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "collection/file_checks.h"
#include "collection/formats/safetensors.h"
#include "collection/shard_contents.h"

namespace maxsim::collection {

// Identifies the contents of a file. It differs if the file was replaced or written to.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  time_t modified_seconds = 0;
  long modified_nanoseconds = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

namespace {

// Returns nullopt if the system does not provide the identity.
std::optional<FileIdentity> IdentityOf(const InputFile& file) {
  struct stat status = {};
  if (fstat(file.fd(), &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace

struct Shard::State {
  std::string path;
  FileBytes bytes;
  ShardContents contents;
  DocumentsView documents = {};
  std::optional<InputFile> file = {};  // while it is mapped
  // The identity of the file that ReleaseTokens closed, and the offset of the tokens in the file.
  std::optional<FileIdentity> released = {};
  int64_t tokens_begin = 0;
  int64_t host_bytes = 0;
};

namespace {

// Holds the range of a part of a file.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Returns whether the tokens of the parsed file are exactly the mapped range. They differ only if the file was changed
// after its header was read. Offsets and ids must not be mapped, because they could change after they were checked.
bool AreTokens(const ByteRange& mapped, const FileBytes& bytes, const ShardContents& contents) {
  const int64_t num_bytes = contents.num_tokens * RowBytes(contents.storage, contents.dim);
  return contents.tokens == bytes.data() + mapped.begin && num_bytes == mapped.end - mapped.begin;
}

// Memory-maps the tokens of a file, and copies everything else into memory. Returns DATA_LOSS if the tokens have fewer
// bytes than the manifest says, because then more would be copied than was reserved.
absl::StatusOr<FileBytes> MapTokens(const InputFile& file, const Manifest& manifest, const ShardEntry& entry,
                                    const StopSignal* stop, ByteRange* mapped) {
  absl::StatusOr<SafetensorsHeader> header = ReadSafetensorsHeader(file);
  if (absl::IsInvalidArgument(header.status())) return DataLoss(file.path(), MessageOf(header.status()));
  if (!header.ok()) return header.status();
  const SafetensorsTensor* tokens = header->Find(kTokens);
  if (tokens == nullptr) return DataLoss(file.path(), "tensor \"tokens\" is missing");
  // Allows a small difference, which a later check against the manifest reports more clearly.
  constexpr int64_t kSmallBytes = int64_t{1} << 20;
  const int64_t beside = file.size() - tokens->num_bytes();
  if (beside - BytesBesideTokens(manifest, entry) > kSmallBytes) {
    return DataLoss(file.path(), Cat("tokens: ", tokens->num_bytes(), " bytes, but the manifest says ",
                                     entry.num_tokens, " tokens of ", manifest.dim, " x ", Name(manifest.storage)));
  }
  *mapped = {tokens->begin, tokens->end};
  return FileBytes::MapRange(file, tokens->begin, tokens->end, stop);
}

// Describes the first difference between a shard and its description in the manifest; nullopt if there is none.
std::optional<std::string> Difference(const ShardContents& shard, const Manifest& manifest, const ShardEntry& entry) {
  const auto says = [](std::string_view what, const auto& value, const auto& expected) {
    return Cat(what, ": ", value, ", but the manifest says ", expected);
  };
  if (shard.storage != manifest.storage) return says("storage", Name(shard.storage), Name(manifest.storage));
  if (shard.rotation_seed != manifest.rotation_seed) {
    return says("rotation seed", shard.rotation_seed, manifest.rotation_seed);
  }
  if (shard.num_centroids != manifest.num_centroids) {
    return says("centroids", shard.num_centroids, manifest.num_centroids);
  }
  if (shard.dim != manifest.dim) return says("dim", shard.dim, manifest.dim);
  if (shard.id_type != manifest.id_type) return says("id type", Name(shard.id_type), Name(manifest.id_type));
  if (shard.has_payloads != manifest.has_payloads) {
    return says("payloads", shard.has_payloads ? "present" : "absent", manifest.has_payloads ? "present" : "absent");
  }
  if (shard.has_ordinals != manifest.partition.has_value()) {
    return says("ordinals", shard.has_ordinals ? "present" : "absent",
                manifest.partition.has_value() ? "that the collection is a partition" : "that the collection is whole");
  }
  if (shard.num_documents != entry.num_documents) return says("documents", shard.num_documents, entry.num_documents);
  if (shard.num_tokens != entry.num_tokens) return says("tokens", shard.num_tokens, entry.num_tokens);
  return std::nullopt;
}

}  // namespace

absl::Status CheckSize(const InputFile& file, const ShardEntry& entry) { return CheckFileSize(file, entry.num_bytes); }

Shard::Shard(std::unique_ptr<State> state) : state_(std::move(state)) {}
Shard::~Shard() = default;

absl::StatusOr<std::shared_ptr<Shard>> Shard::Open(const Folder& folder, const Manifest& manifest,
                                                   const ShardEntry& entry, Access access, bool check_checksum,
                                                   const StopSignal* stop) {
  std::string path = JoinPath(folder.path(), entry.file);
  absl::StatusOr<InputFile> file = folder.Open(entry.file);
  if (!file.ok()) return file.status();
  if (absl::Status status = CheckSize(*file, entry); !status.ok()) return status;
  std::optional<FileBytes> bytes;
  std::string checksum;
  if (access == Access::kCopied) {
    absl::StatusOr<FileBytes> copy = FileBytes::Copy(*file, stop);
    if (!copy.ok()) return copy.status();
    bytes = *std::move(copy);
    if (check_checksum) {
      absl::StatusOr<std::string> found = HashBytes(bytes->view(), stop);
      if (!found.ok()) return found.status();
      checksum = *std::move(found);
    }
  } else if (check_checksum) {
    absl::StatusOr<std::string> found = HashFile(*file, stop);
    if (!found.ok()) return found.status();
    checksum = *std::move(found);
  }
  if (check_checksum) {
    if (absl::Status status = CheckChecksum(path, checksum, entry.checksum); !status.ok()) return status;
  }
  ByteRange mapped;
  if (access == Access::kMapped) {
    absl::StatusOr<FileBytes> partly = MapTokens(*file, manifest, entry, stop, &mapped);
    if (!partly.ok()) return partly.status();
    bytes = *std::move(partly);
  }
  absl::StatusOr<ShardContents> contents = ParseShard(bytes->view(), stop);
  if (absl::Status status = StopStatus(stop); !status.ok()) return status;
  if (!contents.ok()) return DataLoss(path, MessageOf(contents.status()));
  if (std::optional<std::string> difference = Difference(*contents, manifest, entry)) {
    return DataLoss(path, *difference);
  }
  if (access == Access::kMapped && !AreTokens(mapped, *bytes, *contents)) {
    return DataLoss(path, "changed while it was in use: its header is not the one that it had");
  }
  auto state = std::make_unique<State>(State{.path = std::move(path),
                                             .bytes = *std::move(bytes),
                                             .contents = *std::move(contents),
                                             .tokens_begin = mapped.begin,
                                             .host_bytes = entry.num_bytes});
  state->documents = state->contents.documents();
  if (access == Access::kMapped) {
    state->file = *std::move(file);
    state->host_bytes = BytesBesideTokens(manifest, entry);
  }
  auto shard = std::shared_ptr<Shard>(new Shard(std::move(state)));
  if (access == Access::kMapped) {
    shard->state_->documents.source = shard.get();
    // The file was read several times: for its checksum, to copy it and to parse it. Fails if it changed in between.
    if (absl::Status status = shard->Check(); !status.ok()) return status;
  }
  return shard;
}

absl::StatusOr<std::shared_ptr<Shard>> Shard::Open(const std::string& folder, const Manifest& manifest,
                                                   const ShardEntry& entry, Access access, bool check_checksum) {
  return Open(Folder(folder), manifest, entry, access, check_checksum);
}

absl::Status Shard::Check() const {
  if (!state_->file.has_value()) return absl::OkStatus();
  if (absl::Status status = state_->file->CheckUnchanged(); !status.ok()) return AsDataLoss(status);
  if (state_->bytes.lost()) return DataLoss(state_->path, "a part of it could not be read while it was in use");
  return absl::OkStatus();
}

absl::Status Shard::Read(const void* from, size_t num_bytes, void* to) const {
  if (!state_->file.has_value()) return MemorySource::Read(from, num_bytes, to);
  return AsDataLoss(state_->file->ReadAt(static_cast<const uint8_t*>(from) - state_->bytes.data(), to, num_bytes));
}

absl::StatusOr<std::vector<std::byte>> Shard::ReadDocument(int64_t ordinal) const {
  const DocumentsView& view = documents();
  const auto row_bytes = static_cast<size_t>(RowBytes(view.type, view.dim));
  const size_t begin = static_cast<size_t>(view.offsets[ordinal]) * row_bytes;
  std::vector<std::byte> rows(static_cast<size_t>(view.offsets[ordinal + 1]) * row_bytes - begin);
  if (view.tokens != nullptr) {
    absl::Status status = Read(static_cast<const std::byte*>(view.tokens) + begin, rows.size(), rows.data());
    if (status.ok()) status = Check();
    if (!status.ok()) return status;
    return rows;
  }
  absl::StatusOr<InputFile> file = InputFile::Open(path());
  if (absl::IsNotFound(file.status())) return absl::FailedPreconditionError(file.status().message());
  if (!file.ok()) return file.status();
  if (!state_->released.has_value() || IdentityOf(*file) != state_->released) {
    return absl::FailedPreconditionError(
        Cat(path(), ": is no longer the file that the collection was loaded from; reload the collection"));
  }
  absl::Status status = file->ReadAt(state_->tokens_begin + static_cast<int64_t>(begin), rows.data(), rows.size());
  if (status.ok()) status = file->CheckUnchanged();
  if (!status.ok()) return AsDataLoss(status);
  return rows;
}

void Shard::ReleaseTokens() {
  if (!state_->file.has_value()) return;
  state_->released = IdentityOf(*state_->file);
  state_->documents.tokens = nullptr;
  state_->documents.source = nullptr;
  state_->contents.tokens = nullptr;
  state_->bytes.Unmap();
  state_->file.reset();
}

const DocumentsView& Shard::documents() const { return state_->documents; }
IdType Shard::id_type() const { return state_->contents.id_type; }
std::string_view Shard::string_id(int64_t ordinal) const { return state_->contents.string_id(ordinal); }
int64_t Shard::int_id(int64_t ordinal) const { return state_->contents.ids[ordinal]; }
ShardIds Shard::ids() const {
  const ShardContents& contents = state_->contents;
  ShardIds ids;
  if (contents.id_type == IdType::kInt64) {
    ids.ints = contents.ids.data();
  } else {
    ids.offsets = contents.id_offsets.data();
    ids.bytes = contents.id_bytes.data();
    ids.size = contents.id_size;
  }
  return ids;
}
const int64_t* Shard::ordinals() const {
  return state_->contents.has_ordinals ? state_->contents.ordinals.data() : nullptr;
}
std::string_view Shard::bytes() const { return state_->bytes.view(); }
std::string_view Shard::payload(int64_t ordinal) const { return state_->contents.payload(ordinal); }
const std::string& Shard::path() const { return state_->path; }
int64_t Shard::num_bytes() const { return static_cast<int64_t>(state_->bytes.size()); }
int64_t Shard::host_bytes() const { return state_->host_bytes; }

}  // namespace maxsim::collection
