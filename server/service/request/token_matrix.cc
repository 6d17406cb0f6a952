#include "server/service/request/token_matrix.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/limits.h"
#include "server/service/call/status.h"

namespace maxsim::service {
namespace {

absl::Status Invalid(FieldPath path, std::string_view field, const std::string& problem) {
  return InvalidField(absl::StrCat(path(), ".", std::string(field)), problem);
}

float ElementAsF32(ScalarType type, const void* data, size_t idx) {
  float value = 0;
  ConvertElements(type, static_cast<const std::byte*>(data) + idx * SizeOf(type), ScalarType::kF32, &value, 1);
  return value;
}

std::string Place(size_t idx, int32_t dim) {
  const auto columns = static_cast<size_t>(dim);
  return absl::StrCat(" at row ", idx / columns, ", column ", idx % columns);
}

}  // namespace

absl::Status CheckShape(const v1::TokenMatrix& matrix, const TokenMatrixRules& rules, FieldPath path) {
  switch (matrix.dtype()) {
    case v1::DATA_TYPE_F32:
    case v1::DATA_TYPE_F16:
    case v1::DATA_TYPE_BF16:
      break;
    default:
      return Invalid(path, "dtype",
                     absl::StrCat("is ", static_cast<int>(matrix.dtype()), "; must be F32 (1), F16 (2) or BF16 (3)"));
  }
  if (matrix.num_tokens() == 0 || matrix.num_tokens() > rules.max_tokens) {
    return InvalidField(absl::StrCat(path(), ".num_tokens"),
                        absl::StrCat("is ", matrix.num_tokens(), "; must be 1 to ", rules.max_tokens, " (",
                                     std::string(rules.limit_name), ")"),
                        {rules.max_tokens, matrix.num_tokens(), rules.limit_name});
  }
  if (matrix.dim() != static_cast<uint32_t>(rules.dim)) {
    return Invalid(path, "dim",
                   absl::StrCat("is ", matrix.dim(), ", but ",
                                rules.dim_is_of_collection ? "the collection's" : "the first query's", " dimension is ",
                                rules.dim));
  }
  const size_t expected = size_t{matrix.num_tokens()} * matrix.dim() * SizeOf(static_cast<ScalarType>(matrix.dtype()));
  if (matrix.data().size() != expected) {
    return Invalid(
        path, "data",
        absl::StrCat("has ", matrix.data().size(), " bytes, but num_tokens x dim elements are ", expected, " bytes"));
  }
  return absl::OkStatus();
}

absl::Status AppendRows(const v1::TokenMatrix& matrix, const TokenMatrixRules& rules, FieldPath path,
                        std::vector<std::byte>& rows) {
  const auto type = static_cast<ScalarType>(matrix.dtype());
  const void* source = matrix.data().data();
  const size_t count = size_t{matrix.num_tokens()} * matrix.dim();
  if (const auto idx = FindUnusableElement(type, source, count)) {
    const float value = ElementAsF32(type, source, *idx);
    return Invalid(path, "data",
                   absl::StrCat("holds ", value, Place(*idx, rules.dim),
                                "; values must be finite and their "
                                "magnitude at most ",
                                kMaxAbsValue));
  }
  if (type == rules.storage) {
    // Appending writes the memory once. Resizing first would write it twice.
    const auto* bytes = static_cast<const std::byte*>(source);
    rows.insert(rows.end(), bytes, bytes + count * SizeOf(type));
    return absl::OkStatus();
  }
  const size_t begin = rows.size();
  rows.resize(begin + count * SizeOf(rules.storage));
  std::byte* target = rows.data() + begin;
  ConvertElements(type, source, rules.storage, target, count);
  if (const auto idx = FindUnusableElement(rules.storage, target, count)) {
    return Invalid(path, "data",
                   absl::StrCat("holds ", ElementAsF32(type, source, *idx), Place(*idx, rules.dim),
                                ", which overflows the collection's storage type ", std::string(Name(rules.storage)),
                                rules.storage == ScalarType::kF16 ? " (largest magnitude 65504)" : ""));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::service
