#include "collection/evaluation/query_set.h"

#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "base/text.h"
#include "collection/formats/npy.h"
#include "kernels/limits.h"

namespace maxsim::evaluation {
namespace {

using collection::NpyFile;

// Returns the file's elements and their type. Elements of a type that requests cannot have are converted to f32.
std::pair<ScalarType, std::string> WireElements(const NpyFile& file) {
  const std::optional<ScalarType> same = collection::ToScalarType(file.type());
  const auto count = static_cast<size_t>(file.num_elements());
  if (same.has_value()) return {*same, std::string(static_cast<const char*>(file.data()), count * SizeOf(*same))};
  std::string values(count * sizeof(float), '\0');
  for (size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(collection::LoadFloat(file.type(), file.data(), i));
    std::memcpy(values.data() + i * sizeof(float), &value, sizeof(float));
  }
  return {ScalarType::kF32, std::move(values)};
}

absl::StatusOr<std::vector<int64_t>> ReadOffsets(const std::string& lengths_path, int64_t num_tokens,
                                                 const std::string& tokens_path) {
  absl::StatusOr<NpyFile> file = NpyFile::Open(lengths_path);
  if (!file.ok()) return file.status();
  absl::StatusOr<std::vector<int64_t>> lengths = file->Integers();
  if (!lengths.ok()) return lengths.status();
  std::vector<int64_t> offsets = {0};
  for (const int64_t length : *lengths) {
    if (length < 1 || length > num_tokens - offsets.back()) {
      return Invalid(lengths_path, ": query ", offsets.size() - 1, " has length ", length, ", but only ",
                     num_tokens - offsets.back(), " tokens of ", tokens_path, " are left");
    }
    offsets.push_back(offsets.back() + length);
  }
  if (offsets.back() != num_tokens) {
    return Invalid(lengths_path, ": the lengths add up to ", offsets.back(), ", but ", tokens_path, " has ", num_tokens,
                   " tokens");
  }
  return offsets;
}

}  // namespace

bool IsFloat(collection::ElementType type) {
  using collection::ElementType;
  return type == ElementType::kF16 || type == ElementType::kBF16 || type == ElementType::kF32 ||
         type == ElementType::kF64;
}

absl::StatusOr<QuerySet> QuerySet::Read(const std::string& tokens_path, const std::string& lengths_path) {
  const absl::StatusOr<NpyFile> file = NpyFile::Open(tokens_path);
  if (!file.ok()) return file.status();
  const std::vector<int64_t>& shape = file->shape();
  if (!IsFloat(file->type())) {
    return Invalid(tokens_path, ": elements are ", collection::Name(file->type()), "; queries are f16, f32 or f64");
  }
  const bool uniform = shape.size() == 3;
  if (shape.size() != 2 && !uniform) {
    return Invalid(tokens_path, ": shape is ", collection::FormatShape(shape),
                   "; queries are [tokens, dim] or [queries, tokens, dim]");
  }
  if (uniform && !lengths_path.empty()) {
    return Invalid(tokens_path, ": shape is ", collection::FormatShape(shape),
                   "; with lengths it must be [tokens, dim]");
  }
  if (file->num_elements() == 0)
    return Invalid(tokens_path, ": shape is ", collection::FormatShape(shape), "; it must not be empty");
  if (shape.back() > kMaxDim) {
    return Invalid(tokens_path, ": the dimension is ", shape.back(), "; at most ", kMaxDim, " is allowed");
  }

  QuerySet set;
  set.dim_ = static_cast<int32_t>(shape.back());
  const int64_t num_tokens = file->num_elements() / shape.back();
  if (!lengths_path.empty()) {
    absl::StatusOr<std::vector<int64_t>> offsets = ReadOffsets(lengths_path, num_tokens, tokens_path);
    if (!offsets.ok()) return offsets.status();
    set.offsets_ = *std::move(offsets);
  } else {
    const int64_t length = uniform ? shape[1] : num_tokens;
    while (set.offsets_.back() < num_tokens) set.offsets_.push_back(set.offsets_.back() + length);
  }
  for (int64_t query = 0; query < set.size(); ++query) {
    const int64_t length = set.offsets_[static_cast<size_t>(query) + 1] - set.offsets_[static_cast<size_t>(query)];
    if (length > kMaxQueryTokens) {
      return Invalid(tokens_path, ": query ", query, " has ", length, " tokens; at most ", kMaxQueryTokens,
                     " are allowed", lengths_path.empty() ? " (is --query-lengths missing?)" : "");
    }
  }
  std::tie(set.type_, set.values_) = WireElements(*file);
  return set;
}

QuerySet QuerySet::FromFloats(int32_t dim, absl::Span<const int32_t> lengths, absl::Span<const float> values) {
  QuerySet set;
  set.dim_ = dim;
  for (const int32_t length : lengths) set.offsets_.push_back(set.offsets_.back() + length);
  set.values_.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return set;
}

std::string_view QuerySet::bytes(int64_t query) const {
  const size_t row_bytes = static_cast<size_t>(dim_) * SizeOf(type_);
  const auto begin = static_cast<size_t>(offsets_[static_cast<size_t>(query)]) * row_bytes;
  return std::string_view(values_).substr(begin, static_cast<size_t>(num_tokens(query)) * row_bytes);
}

std::string QuerySet::Rounded(int64_t query, ScalarType type) const {
  const std::string_view source = bytes(query);
  const size_t count = source.size() / SizeOf(type_);
  std::string rounded(count * SizeOf(type), '\0');
  ConvertElements(type_, source.data(), type, rounded.data(), count);
  return rounded;
}

absl::Status QuerySet::CheckIndex(int64_t index) const {
  if (index >= 0 && index < size()) return absl::OkStatus();
  return absl::OutOfRangeError(Cat("--query-index is ", index, "; there are ", size(), " queries, from 0"));
}

}  // namespace maxsim::evaluation
