// Fuzzes the safetensors container. An accepted header must cover every byte of the file exactly once, and must not
// change when it is written and read again.
#include <cstdint>
#include <string>
#include <vector>

#include "collection/build/sources/array_input.h"
#include "collection/formats/safetensors.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

using collection::SafetensorsHeader;
using collection::SafetensorsTensor;

void CheckWrittenHeader(const SafetensorsHeader& header) {
  std::vector<SafetensorsTensor> tensors = header.tensors;
  const std::string text = collection::FormatSafetensorsHeader(header.metadata, tensors, 64);
  int64_t size = static_cast<int64_t>(text.size());
  for (const SafetensorsTensor& tensor : header.tensors) size += tensor.num_bytes();
  const absl::StatusOr<SafetensorsHeader> again = collection::ParseSafetensorsHeader(text, size);
  Require(again.ok(), "a header that was written can be read");
  Require(again->metadata == header.metadata, "metadata come back");
  Require(again->tensors.size() == header.tensors.size(), "tensors come back");
  for (size_t idx = 0; idx < tensors.size(); ++idx) {
    const SafetensorsTensor& tensor = again->tensors[idx];
    Require(tensor.name == header.tensors[idx].name && tensor.dtype == header.tensors[idx].dtype &&
                tensor.shape == header.tensors[idx].shape && tensor.num_bytes() == header.tensors[idx].num_bytes(),
            "a tensor comes back");
  }
}

void FuzzSafetensors(std::string_view input) {
  const auto size = static_cast<int64_t>(input.size());
  const absl::StatusOr<SafetensorsHeader> header = collection::ParseSafetensorsHeader(input, size);
  if (!header.ok()) return RequireRefusal(header.status());
  int64_t end = header->data_begin;
  for (const SafetensorsTensor& tensor : header->tensors) {
    Require(tensor.begin == end && tensor.begin <= tensor.end && tensor.end <= size, "ranges follow one another");
    end = tensor.end;
    Require(header->Find(tensor.name) == &tensor, "a tensor is found by its name");
  }
  Require(end == size, "the last range ends with the file");
  CheckWrittenHeader(*header);

  const MemoryFile file(input);
  const auto archive = collection::OpenArchive(file.path());
  Require(archive.ok(), "a file that was accepted opens as an archive");
  for (const SafetensorsTensor& tensor : header->tensors) {
    Require((*archive)->Has(tensor.name), "the archive has every tensor");
    absl::StatusOr<collection::ArrayInput> array = (*archive)->Open(tensor.name);
    if (!array.ok()) continue;  // no import supports this type
    std::string data(static_cast<size_t>(tensor.num_bytes()), '\0');
    Require(array->shape == tensor.shape && array->bytes->Read(data.data(), data.size()).ok(), "a tensor can be read");
    Require(data == input.substr(static_cast<size_t>(tensor.begin), data.size()), "a tensor is its bytes");
    Require(!array->bytes->Read(data.data(), 1).ok(), "a tensor ends where its range ends");
  }
}

const Registration kSafetensorsTarget("safetensors", &FuzzSafetensors);

}  // namespace
}  // namespace maxsim::fuzz
