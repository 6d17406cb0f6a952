// Parses a file of a shard's codes, and computes its layout and size. The format is described in
// docs/reference/formats.md.
//
// A code has 1, 2 or 4 planes; a plane is one bit of every vector element. They are in up to three files beside the
// shard, so that a server loads only the planes that it needs. File 0 has plane 0, a scale per document and a factor
// per token; file 1 has plane 1; file 2 has planes 2 and 3. Each file also has the documents' error bounds for codes
// that use the planes up to this file's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/formats/safetensors.h"
#include "collection/manifest.h"
#include "collection/shard_contents.h"
#include "kernels/codes/codes.h"

namespace maxsim::collection {

inline constexpr std::string_view kCodeFileFormat = "maxsim-codes";
inline constexpr std::string_view kCodeFileFormatVersion = "1";

// Tensor names. A file's plane is "plane0", "plane1" or "planes23": U8 [T, bytes of a row].
inline constexpr std::string_view kCodeFactors = "factors";  // U8 [T], in file 0, if the codes have factors
inline constexpr std::string_view kCodeScales = "scales";    // F32 [N], of file 0
inline constexpr std::string_view kCodeBounds = "bounds";    // F16 [N, 4]: slope, residual, length, norm

// Metadata keys, in addition to "format", "format_version", kRotationKey and kRotationSeedKey.
inline constexpr std::string_view kCodeOriginalsKey = "originals";  // storage of the vectors: "f16", ...
inline constexpr std::string_view kCodeDimKey = "dim";              // decimal

// Returns the name of the tensor of file 0, 1 or 2, and the bytes of one of its rows.
std::string_view PlaneName(size_t file);
int64_t PlaneFileRowBytes(size_t file, int32_t dim);

// Says what one file of codes holds.
struct CodeFileLayout {
  CodeShape shape;
  size_t file = 0;  // 0, 1 or 2
  int64_t num_documents = 0;
  int64_t num_tokens = 0;

  bool has_factors() const { return file == 0 && shape.factors; }
  bool has_scales() const { return file == 0; }
};

// Returns the layout of code file 0, 1 or 2 of a shard.
CodeFileLayout CodeFileLayoutOf(const Manifest& manifest, const ShardEntry& entry, size_t file);

// Returns the size in bytes of a file with this layout.
int64_t CodeFileSize(const CodeFileLayout& layout);

// Returns the header of a file in which the plane's rows come first, then factors, scales and bounds.
std::string FormatCodeFileHeader(const CodeFileLayout& layout);

// The contents of a code file. All pointers are into the parsed bytes, which must outlive this object.
struct CodeFileContents {
  const uint8_t* plane = nullptr;    // [num_tokens, PlaneFileRowBytes], aligned to kPlaneAlignment
  const uint8_t* factors = nullptr;  // [num_tokens], or null
  FloatArray scales;                 // [num_documents] of file 0
  FileArray<CodeBound> bounds;       // [num_documents]
};

// The byte range of a file that has its plane and factors. It may be memory-mapped without checks, because every byte
// value in it is valid.
struct CodeBytesRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Checks a header against the layout: metadata, and the tensors' names, types, shapes and places. INVALID_ARGUMENT
// names the tensor or key, its value and the expected one. Ignores unknown tensors and metadata.
absl::StatusOr<CodeBytesRange> CheckCodeFileHeader(const SafetensorsHeader& header, const CodeFileLayout& layout);

// Parses a whole file. Checks the header, and that every scale and bound is finite and not negative. `bytes` must be
// aligned to kPlaneAlignment in memory. `stop` may be null; once it is stopped, returns its status.
absl::StatusOr<CodeFileContents> ParseCodeFile(std::string_view bytes, const CodeFileLayout& layout,
                                               const StopSignal* stop = nullptr);

}  // namespace maxsim::collection
