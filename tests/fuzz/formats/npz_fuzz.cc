// Fuzzes NumPy's .npz archives. Every accepted member must lie inside the file, and must either unpack to the size in
// its header or fail with an error.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "collection/build/sources/array_input.h"
#include "collection/build/sources/byte_stream.h"
#include "collection/formats/zip.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

constexpr size_t kBlockBytes = 16 * 1024;

// Reads the stream to its end. Returns whether the stream had all `size` bytes. The loop ends soon, because the size in
// a header is at most a thousand times the compressed size.
bool ReadAll(collection::ByteStream& stream, int64_t size) {
  std::string block(kBlockBytes, '\0');
  for (int64_t left = size; left > 0;) {
    const auto amount = static_cast<size_t>(std::min<int64_t>(left, kBlockBytes));
    if (!stream.Read(block.data(), amount).ok()) return false;
    left -= static_cast<int64_t>(amount);
  }
  return true;
}

void FuzzNpz(std::string_view input) {
  const absl::StatusOr<std::vector<collection::ZipMember>> members = collection::ParseZip(input);
  if (!members.ok()) return RequireRefusal(members.status());
  const MemoryFile memory(input);
  absl::StatusOr<InputFile> opened = InputFile::Open(memory.path());
  Require(opened.ok(), "the file opens");
  const auto file = std::make_shared<const InputFile>(*std::move(opened));
  for (const collection::ZipMember& member : *members) {
    Require(member.begin >= 0 && member.begin <= member.end && member.end <= static_cast<int64_t>(input.size()) &&
                member.size >= 0,
            "a member lies inside the archive");
    const std::unique_ptr<collection::ByteStream> stream = collection::ReadZipMember(file, member);
    char byte = 0;
    if (ReadAll(*stream, member.size)) Require(!stream->Read(&byte, 1).ok(), "a member ends at its size");
  }
  const auto archive = collection::OpenArchive(memory.path());
  if (!archive.ok()) return RequireRefusal(archive.status());
  for (const char* name : {"tokens", "lengths", "ids", "scales"}) {
    const absl::StatusOr<collection::ArrayInput> array = (*archive)->Open(name);
    if (!array.ok()) RequireRefusal(array.status());
    Require(!array.ok() || (*archive)->Has(name), "an array that opens is listed");
  }
}

const Registration kNpzTarget("npz", &FuzzNpz);

}  // namespace
}  // namespace maxsim::fuzz
