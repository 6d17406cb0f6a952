// Parses the safetensors container (https://github.com/huggingface/safetensors): an 8-byte little-endian header length,
// a JSON header that names the tensors, then their bytes without holes. The parser is pure: it only looks at bytes, and
// allocates in proportion to the header's own size.
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

// Returns the bits of one element of a dtype, or nullopt for one that safetensors does not define.
std::optional<int> SafetensorsBits(std::string_view dtype);

// Returns the bytes of the length field and the header, from the file's first 8 bytes. Fails with INVALID_ARGUMENT if
// the file is too short for them or the length passes a limit.
absl::StatusOr<int64_t> SafetensorsHeaderEnd(std::string_view first_bytes, int64_t file_size);

// Parses the header at the front of `bytes`. Bytes after the header are ignored; `file_size` is the size of the whole
// file. Checked: every name once; known dtypes; shape x element size equals the byte range, computed without overflow;
// ranges that follow one another without gap or overlap and end with the file. INVALID_ARGUMENT names what is wrong.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view bytes, int64_t file_size);

// Checks the keys "format" and "format_version" of `__metadata__`. Returns INVALID_ARGUMENT, with the value found and
// the value expected, if one is missing or different.
absl::Status CheckFormat(const SafetensorsHeader& header, std::string_view format, std::string_view version);

// Returns the length field and header of a file with these tensors in this order (`begin` and `end` are ignored),
// padded with spaces so that the data section starts at a multiple of `alignment`. Fills in the tensors' ranges.
std::string FormatSafetensorsHeader(const std::vector<std::pair<std::string, std::string>>& metadata,
                                    std::vector<SafetensorsTensor>& tensors, int64_t alignment);

// Reads and parses a file's header, and nothing after it. Returns the errors of the parser and of reading the file.
absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const InputFile& file);

}  // namespace maxsim::collection
