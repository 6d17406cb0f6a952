// libFuzzer target over every parser of bytes that come from outside: the first byte of the input picks one, the rest
// is what it parses. Beyond "no crash", each result is used as its contract allows, and what a contract promises is
// checked.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/shard/byte_stream.h"
#include "server/shard/document_line.h"
#include "server/shard/file.h"
#include "server/shard/import.h"
#include "server/shard/manifest.h"
#include "server/shard/npy.h"
#include "server/shard/safetensors.h"
#include "server/shard/shard_contents.h"
#include "server/shard/text.h"
#include "server/shard/zip.h"

namespace maxsim::shard {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void FuzzSafetensors(std::string_view bytes) {
  const auto size = static_cast<int64_t>(bytes.size());
  const absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(bytes, size);
  if (!header.ok()) return;
  int64_t end = header->data_begin;
  for (const SafetensorsTensor& tensor : header->tensors) {
    Require(tensor.begin == end && tensor.begin <= tensor.end && tensor.end <= size);
    end = tensor.end;
  }
  Require(end == size);
}

void FuzzShard(std::string_view bytes) {
  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  // Aligned at the front, and ending where the bytes end: what is read behind them is seen.
  void* data = nullptr;
  Require(::posix_memalign(&data, 64, bytes.size() + 1) == 0);
  const std::unique_ptr<char, Free> aligned(static_cast<char*>(data));
  std::memcpy(aligned.get(), bytes.data(), bytes.size());
  const absl::StatusOr<ShardContents> shard = ParseShard({aligned.get(), bytes.size()});
  if (!shard.ok()) return;
  const DocumentsView documents = shard->documents();
  Require(ValidateDocuments(documents).ok());
  uint64_t sum = 0;
  const int64_t token_bytes = documents.num_tokens() * documents.dim * static_cast<int64_t>(SizeOf(documents.type));
  for (int64_t idx = 0; idx < token_bytes; ++idx) sum += static_cast<const unsigned char*>(documents.tokens)[idx];
  for (int64_t idx = 0; idx < documents.num_documents; ++idx) {
    if (documents.scales != nullptr) Require(documents.scales[idx] >= 0 && documents.scales[idx] <= kMaxScale);
    if (shard->id_type == IdType::kInt64) {
      sum += static_cast<uint64_t>(shard->ids[idx]);
    } else {
      const std::string_view id = shard->string_id(idx);
      Require(!id.empty() && id.size() <= kMaxIdBytes);
      for (const char c : id) sum += static_cast<unsigned char>(c);
    }
    Require(IsUtf8(shard->payload(idx)));
    for (const char c : shard->payload(idx)) sum += static_cast<unsigned char>(c);
  }
  volatile uint64_t sink = sum;
  static_cast<void>(sink);
}

void FuzzNpy(std::string_view bytes) {
  const absl::StatusOr<NpyHeader> header = ParseNpyHeader(bytes, static_cast<int64_t>(bytes.size()));
  if (!header.ok()) return;
  Require(header->num_bytes() >= 0 && header->data_begin + header->num_bytes() == static_cast<int64_t>(bytes.size()));
}

void FuzzManifest(std::string_view bytes) {
  const absl::StatusOr<Manifest> manifest = ParseManifest(bytes, "fuzz");
  if (!manifest.ok()) return;
  // What is accepted can be written and read again.
  const absl::StatusOr<Manifest> again = ParseManifest(FormatManifest(*manifest), "again");
  Require(again.ok() && again->shards.size() == manifest->shards.size() && again->name == manifest->name &&
          again->rotation_seed == manifest->rotation_seed);
}

void FuzzDocumentLine(std::string_view bytes) {
  const absl::StatusOr<DocumentLine> line = ParseDocumentLine(bytes);
  if (!line.ok()) return;
  Require(line->payload.empty() || CheckPayload(line->payload).ok());
}

// A file in memory with a name that can be opened.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    Require(fd_ >= 0 && ::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { ::close(fd_); }
  std::string path() const { return Cat("/proc/self/fd/", fd_); }

 private:
  const int fd_;
};

// Every member to its end, in pieces.
void FuzzZipMembers(std::string_view bytes) {
  const absl::StatusOr<std::vector<ZipMember>> members = ParseZip(bytes);
  if (!members.ok()) return;
  const MemoryFile memory(bytes);
  absl::StatusOr<InputFile> opened = InputFile::Open(memory.path());
  Require(opened.ok());
  const auto file = std::make_shared<const InputFile>(*std::move(opened));
  std::string block(100'000, '\0');
  for (const ZipMember& member : *members) {
    const std::unique_ptr<ByteStream> stream = ReadZipMember(file, member);
    int64_t left = member.size;
    while (left > 0) {
      const int64_t amount = std::min(left, static_cast<int64_t>(block.size()));
      if (!stream->Read(block.data(), static_cast<size_t>(amount)).ok()) break;
      left -= amount;
    }
    if (left == 0) Require(!stream->Read(block.data(), 1).ok());
  }
}

// An archive or a safetensors file as someone would bring it, through the whole import.
void FuzzImport(std::string_view bytes) {
  const MemoryFile memory(bytes);
  ImportOptions options;
  options.input = memory.path();
  absl::StatusOr<Import> import = OpenImport(options);
  if (!import.ok()) return;
  int64_t sum = 0;
  for (const int32_t length : import->catalog->lengths) {
    Require(length >= 1 && length <= kMaxDocumentTokens);
    sum += length;
  }
  Require(sum == import->tokens->num_tokens());
  Require(import->catalog->ids.size() == import->catalog->num_documents());
  for (int64_t left = sum; left > 0;) {
    const int64_t rows = std::min<int64_t>(left, 16);
    if (!import->tokens->Next(rows).ok()) return;
    left -= rows;
  }
  if (import->payloads == nullptr) return;
  for (const int32_t size : import->catalog->payload_sizes) {
    const absl::StatusOr<std::string_view> payload = import->payloads->Next();
    if (!payload.ok()) return;
    Require(static_cast<int32_t>(payload->size()) == size);
  }
}

void FuzzZip(std::string_view bytes) {
  const absl::StatusOr<std::vector<ZipMember>> members = ParseZip(bytes);
  if (!members.ok()) return;
  for (const ZipMember& member : *members) {
    Require(member.begin >= 0 && member.begin <= member.end && member.end <= static_cast<int64_t>(bytes.size()));
  }
}

}  // namespace
}  // namespace maxsim::shard

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 's':
      maxsim::shard::FuzzSafetensors(bytes);
      break;
    case 'S':
      maxsim::shard::FuzzShard(bytes);
      break;
    case 'n':
      maxsim::shard::FuzzNpy(bytes);
      break;
    case 'm':
      maxsim::shard::FuzzManifest(bytes);
      break;
    case 'd':
      maxsim::shard::FuzzDocumentLine(bytes);
      break;
    case 'z':
      maxsim::shard::FuzzZip(bytes);
      break;
    case 'Z':
      maxsim::shard::FuzzZipMembers(bytes);
      break;
    case 'I':
      maxsim::shard::FuzzImport(bytes);
      break;
    default:
      return -1;
  }
  return 0;
}
