// Parses a file of a shard's codes, and computes its layout and size. The reader, the writer and the fuzzer share it.
// The format is described in docs/reference/formats.md.
//
// The codes of a shard are in up to three files beside it, so that a server only needs the files of the planes that it
// reads. File 0 has plane 0, the documents' scales and the tokens' factors; file 1 has plane 1; file 2 has planes 2 and
// 3. Each file also has the documents' bounds for codes of all planes up to its own.
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

// Metadata keys beside "format", "format_version", kRotationKey and kRotationSeedKey.
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

// Returns the layout that the manifest gives a shard's file.
CodeFileLayout CodeFileLayoutOf(const Manifest& manifest, const ShardEntry& entry, size_t file);

// Returns the size of a file that FormatCodeFileHeader begins.
int64_t CodeFileSize(const CodeFileLayout& layout);

// Returns the header: the plane's rows come first, then factors, scales and bounds.
std::string FormatCodeFileHeader(const CodeFileLayout& layout);

// All pointers are into the parsed bytes, which must outlive this object.
struct CodeFileContents {
  const uint8_t* plane = nullptr;    // [num_tokens, PlaneFileRowBytes], aligned to kPlaneAlignment
  const uint8_t* factors = nullptr;  // [num_tokens], or null
  FloatArray scales;                 // [num_documents] of file 0
  FileArray<CodeBound> bounds;       // [num_documents]
};

// The range of a file with its rows and factors. This range may be mapped, because every byte value in it is valid.
struct CodeBytesRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Checks a header against the layout: format, type and seed of the codes, names, types and shapes of the tensors, the
// place of the plane. INVALID_ARGUMENT names the tensor or key, its value and what was expected. Unknown tensors and
// metadata are skipped.
absl::StatusOr<CodeBytesRange> CheckCodeFileHeader(const SafetensorsHeader& header, const CodeFileLayout& layout);

// Checks the whole structure: the header, every scale (finite, not negative) and every bound (finite, not negative).
// Does not check bits and factors, because every value of them is valid. `bytes` is the whole file and starts at a
// multiple of kPlaneAlignment in memory. Ends with the status of `stop` (may be null) once that is stopped.
absl::StatusOr<CodeFileContents> ParseCodeFile(std::string_view bytes, const CodeFileLayout& layout,
                                               const StopSignal* stop = nullptr);

}  // namespace maxsim::collection
