// Reads NumPy's .npy files (versions 1, 2 and 3) with little-endian numbers in C order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file.h"
#include "collection/formats/element_type.h"

namespace maxsim::collection {

// Every .npy file begins with these bytes.
inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct NpyHeader {
  ElementType type = ElementType::kF32;
  std::vector<int64_t> shape;  // empty for a scalar
  int64_t num_elements = 0;
  int64_t data_begin = 0;  // bytes of the header

  int64_t num_bytes() const { return num_elements * static_cast<int64_t>(SizeOf(type)); }  // of the elements
};

// Longer headers are refused; NumPy's own limit is 10,000.
inline constexpr int64_t kMaxNpyHeaderBytes = 65536;

// Parses the header at the front of `bytes`. The first 12 + kMaxNpyHeaderBytes bytes of the file are enough.
// `total_bytes` is the size of the file or archive member. Returns INVALID_ARGUMENT if this is not a .npy file, its
// size does not match the shape, or its byte order, element order or element type is not supported.
absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view bytes, int64_t total_bytes);

// A memory-mapped .npy file. The file must not change while this object lives.
class NpyFile {
 public:
  // Every error names the path.
  static absl::StatusOr<NpyFile> Open(const std::string& path);

  ElementType type() const { return header_.type; }
  const std::vector<int64_t>& shape() const { return header_.shape; }
  int64_t num_elements() const { return header_.num_elements; }
  // Returns [num_elements] elements. They may be unaligned if another program than NumPy wrote the file.
  const void* data() const { return bytes_.data() + header_.data_begin; }

  // Returns the elements of a one-dimensional integer array. Returns INVALID_ARGUMENT for any other array.
  absl::StatusOr<std::vector<int64_t>> Integers() const;

 private:
  NpyFile(std::string path, NpyHeader header, FileBytes bytes)
      : path_(std::move(path)), header_(std::move(header)), bytes_(std::move(bytes)) {}
  std::string path_;
  NpyHeader header_;
  FileBytes bytes_;
};

// Returns a shape as text, such as "[174339, 96]".
std::string FormatShape(const std::vector<int64_t>& shape);

}  // namespace maxsim::collection
