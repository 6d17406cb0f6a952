// Parses safetensors files (https://github.com/huggingface/safetensors): an 8-byte little-endian header length, a JSON
// header that names the tensors, then their bytes without gaps. Takes memory in proportion to the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim {
class InputFile;
}  // namespace maxsim

namespace maxsim::collection {

// Headers longer than this are refused, as the reference implementation does.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Maximum number of dimensions of a tensor.
inline constexpr size_t kMaxSafetensorsRank = 32;

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // as the header writes it: "F16", "I64", ...
  std::vector<int64_t> shape;
  int64_t begin = 0;  // byte range in the file (not in the data section)
  int64_t end = 0;

  int64_t num_bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<SafetensorsTensor> tensors;  // in the order of their bytes
  int64_t data_begin = 0;                  // where the data section starts in the file

  // Returns nullptr if there is no tensor with that name.
  const SafetensorsTensor* Find(std::string_view name) const;
  std::optional<std::string_view> FindMetadata(std::string_view key) const;
};

// Returns the bits of one element of a dtype, or nullopt if safetensors does not define this dtype.
std::optional<int> SafetensorsBits(std::string_view dtype);

// Returns the size of the length field and the header together. `first_bytes` are the first 8 bytes of the file.
// Returns INVALID_ARGUMENT if the file is shorter than that, or the header exceeds kMaxSafetensorsHeaderBytes.
absl::StatusOr<int64_t> SafetensorsHeaderEnd(std::string_view first_bytes, int64_t file_size);

// Parses the header at the front of `bytes`, and ignores bytes after it. `file_size` is the size of the whole file.
// Checks that no name repeats, that dtypes are known, that each byte range has the size of its tensor, and that the
// ranges fill the data section without gap or overlap. INVALID_ARGUMENT names what is wrong.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view bytes, int64_t file_size);

// Checks the keys "format" and "format_version" of `__metadata__`. If one is missing or different, returns
// INVALID_ARGUMENT with the found and the expected value.
absl::Status CheckFormat(const SafetensorsHeader& header, std::string_view format, std::string_view version);

// Returns the length field and header of a file with these tensors in this order, padded with spaces so that the data
// section starts at a multiple of `alignment`. Sets `begin` and `end` of the tensors.
std::string FormatSafetensorsHeader(const std::vector<std::pair<std::string, std::string>>& metadata,
                                    std::vector<SafetensorsTensor>& tensors, int64_t alignment);

// Reads and parses only a file's header. Returns the errors of ParseSafetensorsHeader and of reading the file.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const InputFile& file);

}  // namespace maxsim::collection
