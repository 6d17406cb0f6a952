#include "collection/codes/shard_codes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/folder.h"
#include "base/text.h"
#include "collection/codes/code_file.h"
#include "collection/file_checks.h"
#include "collection/formats/safetensors.h"

namespace maxsim::collection {

// One file of codes that is open.
struct ShardCodes::File {
  std::string path;
  FileBytes bytes;
  CodeFileContents contents;
  std::optional<InputFile> file = {};  // while it is mapped
  int64_t host_bytes = 0;

  // Returns whether the bytes belong to this file.
  bool Has(const void* from) const {
    const auto* const at = static_cast<const uint8_t*>(from);
    return at >= bytes.data() && at < bytes.data() + bytes.size();
  }
};

struct ShardCodes::State {
  CodeShape shape;
  int planes = 1;
  int64_t num_documents = 0;
  std::vector<File> files;  // [NumCodeFiles(planes)]
};

namespace {

// Memory-maps the plane and the factors of a file, and copies everything else into memory.
absl::StatusOr<FileBytes> MapCodes(const InputFile& file, const CodeFileLayout& layout, const StopSignal* stop,
                                   CodeBytesRange* mapped) {
  const absl::StatusOr<SafetensorsHeader> header = ReadSafetensorsHeader(file);
  if (absl::IsInvalidArgument(header.status())) return DataLoss(file.path(), MessageOf(header.status()));
  if (!header.ok()) return header.status();
  // After this check the shapes are those of the manifest, so the file takes no more memory than was reserved for it.
  const absl::StatusOr<CodeBytesRange> range = CheckCodeFileHeader(*header, layout);
  if (!range.ok()) return DataLoss(file.path(), MessageOf(range.status()));
  *mapped = *range;
  return FileBytes::MapRange(file, range->begin, range->end, stop);
}

// Returns whether the plane and factors of the parsed file are exactly the mapped range. They differ only if the file
// was changed after its header was read. Scales and bounds must not be mapped, because they could change after they
// were checked.
bool IsMapped(const CodeBytesRange& mapped, const FileBytes& bytes, const CodeFileContents& contents,
              const CodeFileLayout& layout) {
  const int64_t plane_end = mapped.begin + layout.num_tokens * PlaneFileRowBytes(layout.file, layout.shape.dim);
  if (contents.plane != bytes.data() + mapped.begin) return false;
  if (mapped.end == plane_end) return true;
  return contents.factors == bytes.data() + plane_end && mapped.end == plane_end + layout.num_tokens;
}

}  // namespace

ShardCodes::ShardCodes(std::unique_ptr<State> state) : state_(std::move(state)) {}
ShardCodes::~ShardCodes() = default;

absl::StatusOr<ShardCodes::File> ShardCodes::OpenFile(const Folder& folder, const Manifest& manifest,
                                                      const ShardEntry& entry, size_t idx, Access access,
                                                      bool check_checksum, const StopSignal* stop) {
  const CodeFileEntry& expected = entry.code_files[idx];
  const CodeFileLayout layout = CodeFileLayoutOf(manifest, entry, idx);
  std::string path = JoinPath(folder.path(), expected.file);
  absl::StatusOr<InputFile> input = folder.Open(expected.file);
  if (!input.ok()) return input.status();
  if (absl::Status status = CheckFileSize(*input, expected.num_bytes); !status.ok()) return status;
  if (check_checksum && access == Access::kMapped) {
    const absl::StatusOr<std::string> found = HashFile(*input, stop);
    if (!found.ok()) return found.status();
    if (absl::Status status = CheckChecksum(path, *found, expected.checksum); !status.ok()) return status;
  }
  CodeBytesRange mapped;
  absl::StatusOr<FileBytes> bytes =
      access == Access::kMapped ? MapCodes(*input, layout, stop, &mapped) : FileBytes::Copy(*input, stop);
  if (!bytes.ok()) return bytes.status();
  if (check_checksum && access == Access::kCopied) {
    const absl::StatusOr<std::string> found = HashBytes(bytes->view(), stop);
    if (!found.ok()) return found.status();
    if (absl::Status status = CheckChecksum(path, *found, expected.checksum); !status.ok()) return status;
  }
  absl::StatusOr<CodeFileContents> contents = ParseCodeFile(bytes->view(), layout, stop);
  if (absl::Status status = StopStatus(stop); !status.ok()) return status;
  if (!contents.ok()) return DataLoss(path, MessageOf(contents.status()));
  File file = {.path = std::move(path),
               .bytes = *std::move(bytes),
               .contents = *std::move(contents),
               .host_bytes = expected.num_bytes - (mapped.end - mapped.begin)};
  if (access == Access::kCopied) return file;
  if (!IsMapped(mapped, file.bytes, file.contents, layout)) {
    return DataLoss(file.path, "changed while it was in use: its header is not the one that it had");
  }
  file.file = *std::move(input);
  return file;
}

absl::StatusOr<std::shared_ptr<ShardCodes>> ShardCodes::Open(const Folder& folder, const Manifest& manifest,
                                                             const ShardEntry& entry, int planes, Access access,
                                                             bool check_checksum, const StopSignal* stop) {
  if (!IsPlaneCount(planes)) return Invalid("planes: ", planes, ", expected 1, 2 or 4");
  if (!manifest.codes.has_value() || manifest.codes->planes < planes) {
    return Invalid("planes: ", planes, ", but the collection ", Quote(manifest.name), " has codes of ",
                   manifest.codes.has_value() ? manifest.codes->planes : 0);
  }
  auto state = std::make_unique<State>(
      State{.shape = CodeShapeOf(manifest), .planes = planes, .num_documents = entry.num_documents, .files = {}});
  for (size_t idx = 0; idx < NumCodeFiles(planes); ++idx) {
    absl::StatusOr<File> file = OpenFile(folder, manifest, entry, idx, access, check_checksum, stop);
    if (!file.ok()) return file.status();
    state->files.push_back(*std::move(file));
  }
  auto codes = std::shared_ptr<ShardCodes>(new ShardCodes(std::move(state)));
  // Each code file was read several times: for its checksum, to copy it and to parse it. Fails if one changed in
  // between.
  if (absl::Status status = codes->Check(); !status.ok()) return status;
  return codes;
}

absl::StatusOr<std::shared_ptr<ShardCodes>> ShardCodes::Open(const std::string& folder, const Manifest& manifest,
                                                             const ShardEntry& entry, int planes, Access access,
                                                             bool check_checksum) {
  return Open(Folder(folder), manifest, entry, planes, access, check_checksum);
}

CodesView ShardCodes::view(const DocumentsView& documents) const {
  CodesView view{.shape = state_->shape,
                 .planes = state_->planes,
                 .num_documents = state_->num_documents,
                 .offsets = documents.offsets};
  const std::vector<File>& files = state_->files;
  view.plane0 = files[0].contents.plane;
  view.factors = files[0].contents.factors;
  view.scales = files[0].contents.scales.data();
  if (files.size() > 1) view.plane1 = files[1].contents.plane;
  if (files.size() > 2) view.planes23 = files[2].contents.plane;
  for (size_t idx = 0; idx < files.size(); ++idx) view.bounds[idx] = files[idx].contents.bounds.data();
  return view;
}

absl::Status ShardCodes::Check() const {
  for (const File& file : state_->files) {
    if (!file.file.has_value()) continue;
    if (absl::Status status = file.file->CheckUnchanged(); !status.ok()) return AsDataLoss(status);
    if (file.bytes.lost()) return DataLoss(file.path, "a part of it could not be read while it was in use");
  }
  return absl::OkStatus();
}

absl::Status ShardCodes::Read(const void* from, size_t num_bytes, void* to) const {
  for (const File& file : state_->files) {
    if (!file.file.has_value() || !file.Has(from)) continue;
    return AsDataLoss(file.file->ReadAt(static_cast<const uint8_t*>(from) - file.bytes.data(), to, num_bytes));
  }
  return MemorySource::Read(from, num_bytes, to);
}

void ShardCodes::ReleasePlanes() {
  for (File& file : state_->files) {
    if (!file.file.has_value()) continue;
    file.contents.plane = nullptr;
    file.contents.factors = nullptr;
    file.bytes.Unmap();
    file.file.reset();
  }
}

int ShardCodes::planes() const { return state_->planes; }
std::string_view ShardCodes::bytes(size_t file) const { return state_->files[file].bytes.view(); }

int64_t ShardCodes::num_bytes() const {
  int64_t sum = 0;
  for (const File& file : state_->files) sum += static_cast<int64_t>(file.bytes.size());
  return sum;
}

int64_t ShardCodes::host_bytes() const {
  int64_t sum = 0;
  for (const File& file : state_->files) sum += file.host_bytes;
  return sum;
}

}  // namespace maxsim::collection
