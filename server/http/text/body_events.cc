#include "server/http/text/body_events.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/limits.h"
#include "kernels/scalar_type.h"
#include "server/http/text/base64.h"

namespace maxsim::http {
namespace {

// A number that is out of FP32's range becomes an infinity. Validation refuses it with an error that names its row
// and column.
float Narrow(double value) {
  if (std::abs(value) <= static_cast<double>(std::numeric_limits<float>::max())) return static_cast<float>(value);
  return std::copysign(std::numeric_limits<float>::infinity(), value > 0 ? 1.0F : -1.0F);
}

// The members of a matrix that is an object.
constexpr std::array<std::pair<BodyEvents::Part, std::string_view>, 3> kParts = {
    {{BodyEvents::Part::kDtype, "dtype"}, {BodyEvents::Part::kShape, "shape"}, {BodyEvents::Part::kData, "data"}}};

constexpr uint32_t BitOf(BodyEvents::Part part) { return uint32_t{1} << static_cast<int>(part); }

}  // namespace

absl::Status BodyEvents::Read(std::string_view body) {
  body_ = body;
  absl::Status status = Parse(body, stop_);
  if (!stopped_.ok()) return stopped_;
  return malformed() ? Prefix("the body is not JSON: ", status) : status;
}

std::string BodyEvents::Shown(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string BodyEvents::Shown(const std::string& text) {
  // Quoting cuts the text, so the part that will be cut off need not be escaped.
  return Shown(Json(text.substr(0, 2 * kLongestQuote)));
}

bool BodyEvents::FailTooDeep(int max_depth) {
  return Fail(Cat("the body is nested deeper than ", max_depth, " levels"));
}

bool BodyEvents::ReadRows(v1::TokenMatrix* matrix, int64_t max_rows, std::string_view limit_name) {
  BeginMatrix(Reading::kRows, matrix, max_rows, limit_name);
  return true;
}

bool BodyEvents::ReadEncoded(v1::TokenMatrix* matrix, int64_t max_rows, std::string_view limit_name) {
  BeginMatrix(Reading::kEncoded, matrix, max_rows, limit_name);
  return true;
}

void BodyEvents::BeginMatrix(Reading reading, v1::TokenMatrix* matrix, int64_t max_rows, std::string_view limit_name) {
  reading_ = reading;
  matrix_depth_ = depth();
  matrix_ = matrix;
  max_rows_ = max_rows;
  limit_name_ = limit_name;
  num_rows_ = dim_ = row_size_ = num_shape_ = 0;
  shape_is_wrong_ = false;
  part_ = Part::kNone;
  seen_parts_ = 0;
}

bool BodyEvents::Skip() {
  outer_ = std::exchange(reading_, Reading::kSkipped);
  skip_depth_ = depth();
  container_begin_ = position() - 1;
  return true;
}

bool BodyEvents::Ignore() {
  outer_ = std::exchange(reading_, Reading::kIgnored);
  skip_depth_ = depth();
  return true;
}

bool BodyEvents::Value(std::string_view) { return reading_ == Reading::kMembers ? Null() : Scalar("null"); }

bool BodyEvents::OnBool(bool value) {
  return reading_ == Reading::kMembers ? Bool(value) : Scalar(value ? "true" : "false");
}

bool BodyEvents::OnString(std::string& value) {
  if (reading_ == Reading::kMembers) return Text(value);
  if (reading_ == Reading::kEncoded && part_ == Part::kDtype) return ReadDtype(value);
  if (reading_ == Reading::kEncoded && part_ == Part::kData) return ReadData(value);
  return Scalar(reading_ == Reading::kRows || reading_ == Reading::kEncoded ? Shown(value) : std::string());
}

bool BodyEvents::OnInteger(int64_t value) {
  if (reading_ == Reading::kMembers) return Integer(value);
  if (reading_ == Reading::kShape && depth() == matrix_depth_ + 1 && value >= 0 && value <= int64_t{UINT32_MAX} &&
      num_shape_ < 2) {
    num_shape_ == 0 ? matrix_->set_num_tokens(static_cast<uint32_t>(value))
                    : matrix_->set_dim(static_cast<uint32_t>(value));
    ++num_shape_;
    return true;
  }
  return MatrixNumber(static_cast<double>(value), value);
}

bool BodyEvents::OnLargeInteger(uint64_t value) {
  const auto wide = static_cast<double>(value);
  return reading_ == Reading::kMembers ? Number(wide, value) : MatrixNumber(wide, value);
}

bool BodyEvents::OnFloat(double value) {
  return reading_ == Reading::kMembers ? Number(value, value) : MatrixNumber(value, value);
}

bool BodyEvents::MatrixNumber(double value, const Json& exact) {
  if (reading_ != Reading::kRows || depth() != matrix_depth_ + 1) {
    return Scalar(reading_ == Reading::kRows || reading_ == Reading::kEncoded ? Shown(exact) : std::string());
  }
  if (num_rows_ > 0 && row_size_ == dim_) return RefuseRow();
  if (row_size_ == kMaxDim) {
    return Wrong(Cat(MatrixPath(), "[0]"), Cat("has more than ", kMaxDim, " numbers, the largest dimension"),
                 {kMaxDim, ""});
  }
  const float narrow = Narrow(value);
  matrix_->mutable_data()->append(reinterpret_cast<const char*>(&narrow), sizeof(narrow));
  ++row_size_;
  return true;
}

bool BodyEvents::Scalar(std::string_view shown) {
  switch (reading_) {
    case Reading::kRows:
      return RefuseElement(shown);
    case Reading::kEncoded:
      return RefusePart(shown);
    case Reading::kShape:
      shape_is_wrong_ = true;
      return true;
    default:
      return true;  // passed over
  }
}

bool BodyEvents::OnStartObject() { return reading_ == Reading::kMembers ? StartObject() : StartContainer(); }
bool BodyEvents::OnStartArray() {
  if (reading_ == Reading::kMembers) return StartList();
  if (reading_ == Reading::kRows && depth() == matrix_depth_ + 1) return StartRow();
  if (reading_ == Reading::kEncoded && part_ == Part::kShape && depth() == matrix_depth_ + 1) {
    reading_ = Reading::kShape;
    container_begin_ = position() - 1;
    return true;
  }
  return StartContainer();
}

bool BodyEvents::StartContainer() {
  if (reading_ == Reading::kShape) shape_is_wrong_ = true;
  // A list or object is not allowed in this place of a matrix. It is refused at its end, where it can be quoted in
  // full.
  if (reading_ == Reading::kRows || reading_ == Reading::kEncoded) return Skip();
  return true;
}

bool BodyEvents::OnKey(std::string& key) {
  if (reading_ == Reading::kMembers) return Key(key);
  return reading_ != Reading::kEncoded || SelectPart(key);
}

bool BodyEvents::OnEndObject() {
  if (reading_ == Reading::kMembers) return EndObject();
  if (reading_ == Reading::kEncoded) return EndParts();
  return EndContainer();
}

bool BodyEvents::OnEndArray() {
  if (reading_ == Reading::kMembers) return EndList();
  if (reading_ == Reading::kRows) return depth() == matrix_depth_ ? EndRow() : EndRows();
  if (reading_ == Reading::kShape) return depth() > matrix_depth_ || EndShape();
  return EndContainer();
}

// Called at the end of a list or object that is skipped or ignored, and of each one within it.
bool BodyEvents::EndContainer() {
  if (reading_ == Reading::kShape || depth() >= skip_depth_) return true;
  const bool is_refused = reading_ == Reading::kSkipped;
  reading_ = outer_;
  if (!is_refused) return EndIgnored();
  const std::string_view shown = Since(container_begin_);
  return reading_ == Reading::kMembers ? Refuse(shown) : Scalar(shown);
}

bool BodyEvents::StartRow() {
  if (num_rows_ >= max_rows_) {
    return Wrong(MatrixPath(), Cat("has more than ", max_rows_, " rows (", limit_name_, ")"), {max_rows_, limit_name_});
  }
  row_size_ = 0;
  return true;
}

bool BodyEvents::EndRow() {
  if (num_rows_ == 0) {
    if (row_size_ == 0) return NoMatrix();
    dim_ = row_size_;
  } else if (row_size_ != dim_) {
    return RefuseRow();
  }
  ++num_rows_;
  return true;
}

bool BodyEvents::EndRows() {
  if (num_rows_ == 0) return NoMatrix();
  matrix_->set_dtype(v1::DATA_TYPE_F32);
  matrix_->set_num_tokens(static_cast<uint32_t>(num_rows_));
  matrix_->set_dim(static_cast<uint32_t>(dim_));
  reading_ = Reading::kMembers;
  return EndMatrix();
}

bool BodyEvents::EndShape() {
  reading_ = Reading::kEncoded;
  return (!shape_is_wrong_ && num_shape_ == 2) || RefusePart(Since(container_begin_));
}

bool BodyEvents::SelectPart(std::string_view key) {
  for (const auto& [part, name] : kParts) {
    if (name != key) continue;
    if ((seen_parts_ & BitOf(part)) != 0) return Wrong(Cat(MatrixPath(), ".", key), "appears twice");
    seen_parts_ |= BitOf(part);
    part_ = part;
    return true;
  }
  return Wrong(Cat(MatrixPath(), ".", Printable(key, kLongestQuote)), "is not a member (dtype, shape and data are)");
}

bool BodyEvents::EndParts() {
  for (const auto& [part, name] : kParts) {
    if ((seen_parts_ & BitOf(part)) == 0) return Wrong(Cat(MatrixPath(), ".", name), "is missing");
  }
  reading_ = Reading::kMembers;
  return EndMatrix();
}

bool BodyEvents::ReadDtype(const std::string& name) {
  const auto type = ScalarTypeFromName(name);
  if (!type.has_value() || *type == ScalarType::kI8 || IsResidual(*type)) return RefusePart(Shown(name));
  matrix_->set_dtype(static_cast<v1::DataType>(*type));
  return true;
}

bool BodyEvents::ReadData(const std::string& text) {
  const absl::StatusOr<bool> is_base64 = DecodeBase64(text, stop_, matrix_->mutable_data());
  if (is_base64.ok()) return *is_base64 || RefusePart("");
  stopped_ = is_base64.status();
  return false;
}

bool BodyEvents::RefuseRow() {
  return Wrong(Cat(MatrixPath(), "[", num_rows_, "]"), Cat("must be a row of ", dim_, " numbers as the first is"));
}

bool BodyEvents::RefuseElement(std::string_view shown) {
  if (depth() > matrix_depth_) {
    return WrongValue(Cat(MatrixPath(), "[", num_rows_, "][", row_size_, "]"), shown, ", not a number");
  }
  return num_rows_ == 0 ? NoMatrix() : RefuseRow();
}

bool BodyEvents::RefusePart(std::string_view shown) {
  const std::string path = MatrixPath();
  if (part_ == Part::kDtype) return WrongValue(Cat(path, ".dtype"), shown, "; must be f32, f16 or bf16");
  if (part_ == Part::kData) return Wrong(Cat(path, ".data"), "is not base64");
  return WrongValue(
      Cat(path, ".shape"), shown,
      Cat("; must be [tokens, dim]: 1 to ", max_rows_, " (", limit_name_, "), and the collection's dimension"));
}

}  // namespace maxsim::http
