#include "collection/codes/code_file.h"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "kernels/codes/code_layout.h"

namespace maxsim::collection {
namespace {

constexpr std::array<std::string_view, 3> kPlaneNames = {"plane0", "plane1", "planes23"};
constexpr int64_t kBoundNumbers = 4;
static_assert(sizeof(CodeBound) == kBoundNumbers * sizeof(uint16_t));

// F16 numbers with these bits or higher ones are infinite, NaN, or negative.
constexpr uint16_t kF16Infinity = 0x7c00;

absl::Status CheckKey(const SafetensorsHeader& header, std::string_view key, std::string_view expected) {
  const std::string_view found = header.FindMetadata(key).value_or("");
  if (found == expected) return absl::OkStatus();
  return Invalid("__metadata__.", key, ": ", Quote(found), ", expected ", Quote(expected));
}

absl::StatusOr<const SafetensorsTensor*> Find(const SafetensorsHeader& header, std::string_view name,
                                              std::string_view dtype, const std::vector<int64_t>& shape) {
  const SafetensorsTensor* const tensor = header.Find(name);
  if (tensor == nullptr) return Invalid("tensor \"", name, "\" is missing");
  if (tensor->dtype != dtype) return Invalid(name, ": dtype ", Quote(tensor->dtype), ", expected ", dtype);
  if (tensor->shape != shape) {
    return Invalid(name, ": shape [", absl::StrJoin(tensor->shape, ", "), "], expected [", absl::StrJoin(shape, ", "),
                   "]");
  }
  return tensor;
}

// The tensors of a file, as its header describes them.
struct CodeTensors {
  const SafetensorsTensor* plane = nullptr;
  const SafetensorsTensor* factors = nullptr;  // or null
  const SafetensorsTensor* scales = nullptr;   // or null
  const SafetensorsTensor* bounds = nullptr;
};

absl::StatusOr<CodeTensors> FindTensors(const SafetensorsHeader& header, const CodeFileLayout& layout) {
  if (absl::Status status = CheckFormat(header, kCodeFileFormat, kCodeFileFormatVersion); !status.ok()) return status;
  const std::pair<std::string_view, std::string> keys[] = {
      {kCodeOriginalsKey, std::string(Name(layout.shape.originals))},
      {kCodeDimKey, Cat(layout.shape.dim)},
      {kRotationKey, std::string(kRotationKind)},
      {kRotationSeedKey, Cat(layout.shape.rotation_seed)}};
  for (const auto& [key, expected] : keys) {
    if (absl::Status status = CheckKey(header, key, expected); !status.ok()) return status;
  }
  CodeTensors tensors;
  absl::StatusOr<const SafetensorsTensor*> plane =
      Find(header, PlaneName(layout.file), "U8", {layout.num_tokens, PlaneFileRowBytes(layout.file, layout.shape.dim)});
  if (!plane.ok()) return plane.status();
  tensors.plane = *plane;
  if (tensors.plane->begin % static_cast<int64_t>(kPlaneAlignment) != 0) {
    return Invalid(PlaneName(layout.file), ": starts at byte ", tensors.plane->begin,
                   " of the file, which is not a multiple of ", kPlaneAlignment);
  }
  if (layout.has_factors()) {
    absl::StatusOr<const SafetensorsTensor*> factors = Find(header, kCodeFactors, "U8", {layout.num_tokens});
    if (!factors.ok()) return factors.status();
    tensors.factors = *factors;
  } else if (header.Find(kCodeFactors) != nullptr) {
    return Invalid("factors: the codes of this file have none");
  }
  if (layout.has_scales()) {
    absl::StatusOr<const SafetensorsTensor*> scales = Find(header, kCodeScales, "F32", {layout.num_documents});
    if (!scales.ok()) return scales.status();
    tensors.scales = *scales;
  }
  absl::StatusOr<const SafetensorsTensor*> bounds =
      Find(header, kCodeBounds, "F16", {layout.num_documents, kBoundNumbers});
  if (!bounds.ok()) return bounds.status();
  tensors.bounds = *bounds;
  return tensors;
}

absl::Status CheckScales(const FloatArray& scales, int64_t num_documents, const StopSignal* stop) {
  for (int64_t idx = 0; idx < num_documents; ++idx) {
    if (idx % kStopBlockDocuments == 0) {
      if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    }
    // This form of the condition also refuses NaN.
    if (!(scales[idx] >= 0) || !std::isfinite(scales[idx])) {
      return Invalid("scales[", idx, "]: ", scales[idx], " is not finite, or below 0");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckBounds(const FileArray<CodeBound>& bounds, int64_t num_documents, const StopSignal* stop) {
  for (int64_t idx = 0; idx < num_documents; ++idx) {
    if (idx % kStopBlockDocuments == 0) {
      if (absl::Status status = StopStatus(stop); !status.ok()) return status;
    }
    const CodeBound bound = bounds.data()[idx];
    if (bound.slope < kF16Infinity && bound.residual < kF16Infinity && bound.length < kF16Infinity &&
        bound.norm < kF16Infinity) {
      continue;
    }
    return Invalid("bounds[", idx, "]: (", F16ToF32(bound.slope), ", ", F16ToF32(bound.residual), ", ",
                   F16ToF32(bound.length), ", ", F16ToF32(bound.norm), ") must all be finite, and 0 or more");
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view PlaneName(size_t file) { return kPlaneNames[file]; }

int64_t PlaneFileRowBytes(size_t file, int32_t dim) {
  return static_cast<int64_t>(file == 2 ? FieldRowBytes(dim) : PlaneRowBytes(dim));
}

CodeFileLayout CodeFileLayoutOf(const Manifest& manifest, const ShardEntry& entry, size_t file) {
  return {CodeShapeOf(manifest), file, entry.num_documents, entry.num_tokens};
}

int64_t CodeFileSize(const CodeFileLayout& layout) {
  int64_t bytes = kWriterAlignment + layout.num_tokens * PlaneFileRowBytes(layout.file, layout.shape.dim);
  if (layout.has_factors()) bytes += layout.num_tokens;
  if (layout.has_scales()) bytes += layout.num_documents * static_cast<int64_t>(sizeof(float));
  return bytes + layout.num_documents * static_cast<int64_t>(sizeof(CodeBound));
}

std::string FormatCodeFileHeader(const CodeFileLayout& layout) {
  const CodeShape& shape = layout.shape;
  std::vector<SafetensorsTensor> tensors;
  tensors.push_back({std::string(PlaneName(layout.file)),
                     "U8",
                     {layout.num_tokens, PlaneFileRowBytes(layout.file, shape.dim)},
                     0,
                     0});
  if (layout.has_factors()) tensors.push_back({std::string(kCodeFactors), "U8", {layout.num_tokens}, 0, 0});
  if (layout.has_scales()) tensors.push_back({std::string(kCodeScales), "F32", {layout.num_documents}, 0, 0});
  tensors.push_back({std::string(kCodeBounds), "F16", {layout.num_documents, kBoundNumbers}, 0, 0});
  return FormatSafetensorsHeader({{"format", std::string(kCodeFileFormat)},
                                  {"format_version", std::string(kCodeFileFormatVersion)},
                                  {std::string(kCodeOriginalsKey), std::string(Name(shape.originals))},
                                  {std::string(kCodeDimKey), Cat(shape.dim)},
                                  {std::string(kRotationKey), std::string(kRotationKind)},
                                  {std::string(kRotationSeedKey), Cat(shape.rotation_seed)}},
                                 tensors, kWriterAlignment);
}

absl::StatusOr<CodeBytesRange> CheckCodeFileHeader(const SafetensorsHeader& header, const CodeFileLayout& layout) {
  const absl::StatusOr<CodeTensors> tensors = FindTensors(header, layout);
  if (!tensors.ok()) return tensors.status();
  CodeBytesRange range = {tensors->plane->begin, tensors->plane->end};
  // If the factors follow the rows directly, the mapped range includes them. This project writes files in this order.
  if (tensors->factors != nullptr && tensors->factors->begin == range.end) range.end = tensors->factors->end;
  return range;
}

absl::StatusOr<CodeFileContents> ParseCodeFile(std::string_view bytes, const CodeFileLayout& layout,
                                               const StopSignal* stop) {
  const absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()));
  if (!header.ok()) return header.status();
  const absl::StatusOr<CodeTensors> tensors = FindTensors(*header, layout);
  if (!tensors.ok()) return tensors.status();
  const auto at = [&](const SafetensorsTensor* tensor) {
    return reinterpret_cast<const uint8_t*>(bytes.data()) + tensor->begin;
  };
  CodeFileContents contents;
  contents.plane = at(tensors->plane);
  if (tensors->factors != nullptr) contents.factors = at(tensors->factors);
  if (tensors->scales != nullptr) {
    contents.scales = FloatArray(at(tensors->scales), layout.num_documents);
    if (absl::Status status = CheckScales(contents.scales, layout.num_documents, stop); !status.ok()) return status;
  }
  contents.bounds = FileArray<CodeBound>(at(tensors->bounds), layout.num_documents);
  if (absl::Status status = CheckBounds(contents.bounds, layout.num_documents, stop); !status.ok()) return status;
  return contents;
}

}  // namespace maxsim::collection
