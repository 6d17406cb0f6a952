#include "collection/formats/npy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr size_t kMaxRank = 32;

// Parses a .npy header: the text of a Python dictionary with the keys 'descr' (a string), 'fortran_order' (True or
// False) and 'shape' (a tuple of integers).
class HeaderScanner {
 public:
  explicit HeaderScanner(std::string_view text) : text_(text) {}

  absl::Status Scan();

  std::string_view descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;

 private:
  void SkipSpace() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  std::optional<std::string_view> TakeString() {
    SkipSpace();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }
  absl::Status ScanShape();
  absl::Status Malformed(std::string_view expected) const {
    return Invalid("malformed .npy header: ", expected, " expected at byte ", at_, " of the dictionary");
  }

  const std::string_view text_;
  size_t at_ = 0;
};

absl::Status HeaderScanner::ScanShape() {
  if (!Take('(')) return Malformed("a tuple");
  while (!Take(')')) {
    SkipSpace();
    const size_t first = at_;
    int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, text_[at_] - '0', &value)) {
        return Invalid("malformed .npy header: a dimension of the shape is beyond 2^63 - 1");
      }
    }
    if (at_ == first) return Malformed("a number");
    TakeWord("L");  // Python 2 wrote 10L
    if (shape.size() == kMaxRank) return Invalid("malformed .npy header: more than ", kMaxRank, " dimensions");
    shape.push_back(value);
    if (!Take(',')) {
      if (!Take(')')) return Malformed("',' or ')'");
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status HeaderScanner::Scan() {
  bool seen_descr = false;
  bool seen_order = false;
  bool seen_shape = false;
  if (!Take('{')) return Malformed("'{'");
  while (!Take('}')) {
    const std::optional<std::string_view> key = TakeString();
    if (!key.has_value()) return Malformed("a key");
    if (!Take(':')) return Malformed("':'");
    bool* seen = *key == "descr"           ? &seen_descr
                 : *key == "fortran_order" ? &seen_order
                 : *key == "shape"         ? &seen_shape
                                           : nullptr;
    if (seen == nullptr) return Invalid("malformed .npy header: unknown key ", Quote(*key));
    if (std::exchange(*seen, true)) return Invalid("malformed .npy header: key ", Quote(*key), " appears twice");
    if (seen == &seen_descr) {
      const std::optional<std::string_view> value = TakeString();
      if (!value.has_value()) {
        return Invalid("the array's element type is not a plain number (a structured array?)");
      }
      descr = *value;
    } else if (seen == &seen_order) {
      fortran_order = TakeWord("True");
      if (!fortran_order && !TakeWord("False")) return Malformed("True or False");
    } else if (absl::Status status = ScanShape(); !status.ok()) {
      return status;
    }
    if (!Take(',')) {
      if (!Take('}')) return Malformed("',' or '}'");
      break;
    }
  }
  SkipSpace();
  if (at_ != text_.size()) return Malformed("the end");
  if (!seen_descr || !seen_order || !seen_shape) {
    return Invalid("malformed .npy header: descr, fortran_order and shape expected");
  }
  return absl::OkStatus();
}

absl::StatusOr<ElementType> TypeFromDescr(std::string_view descr) {
  constexpr std::array<std::pair<std::string_view, ElementType>, 11> kTypes = {{{"f2", ElementType::kF16},
                                                                                {"f4", ElementType::kF32},
                                                                                {"f8", ElementType::kF64},
                                                                                {"i1", ElementType::kI8},
                                                                                {"i2", ElementType::kI16},
                                                                                {"i4", ElementType::kI32},
                                                                                {"i8", ElementType::kI64},
                                                                                {"u1", ElementType::kU8},
                                                                                {"u2", ElementType::kU16},
                                                                                {"u4", ElementType::kU32},
                                                                                {"u8", ElementType::kU64}}};
  if (!descr.empty() && descr[0] == '>') {
    return Invalid("dtype ", Quote(descr), " is big-endian; store it little-endian (array.astype('<...'))");
  }
  if (!descr.empty() && (descr[0] == '<' || descr[0] == '|' || descr[0] == '=')) {
    for (const auto& [name, type] : kTypes) {
      if (descr.substr(1) == name) return type;
    }
  }
  return Invalid("dtype ", Quote(descr),
                 " is not supported (f2, f4, f8 and the integers are; for BF16 use safetensors)");
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(std::string_view bytes, int64_t total_bytes) {
  if (bytes.size() < 10 || bytes.substr(0, kNpyMagic.size()) != kNpyMagic) {
    return Invalid("not a .npy file: it does not begin with \\x93NUMPY");
  }
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) return Invalid(".npy version ", version, "; must be 1 to 3");
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t text_begin = 8 + length_bytes;
  if (bytes.size() < text_begin) return Invalid("not a .npy file: it ends inside its header");
  uint64_t length = 0;
  for (size_t idx = 0; idx < length_bytes; ++idx) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[8 + idx])) << (8 * idx);
  }
  if (length > static_cast<uint64_t>(kMaxNpyHeaderBytes)) {
    return Invalid(".npy header of ", length, " bytes, the limit is ", kMaxNpyHeaderBytes);
  }
  if (text_begin + length > bytes.size()) return Invalid("not a .npy file: it ends inside its header");
  HeaderScanner scanner(bytes.substr(text_begin, length));
  if (absl::Status status = scanner.Scan(); !status.ok()) return status;
  absl::StatusOr<ElementType> type = TypeFromDescr(scanner.descr);
  if (!type.ok()) return type.status();

  NpyHeader header;
  header.type = *type;
  header.shape = std::move(scanner.shape);
  header.data_begin = static_cast<int64_t>(text_begin + length);
  header.num_elements = 1;
  int64_t expected;
  bool overflow = false;
  for (const int64_t extent : header.shape) {
    overflow |= __builtin_mul_overflow(header.num_elements, extent, &header.num_elements);
  }
  overflow |= __builtin_mul_overflow(header.num_elements, static_cast<int64_t>(SizeOf(*type)), &expected);
  overflow |= __builtin_add_overflow(expected, header.data_begin, &expected);
  if (overflow) return Invalid("shape ", FormatShape(header.shape), ": it has more than 2^63 bytes");
  if (scanner.fortran_order && header.shape.size() > 1) {
    return Invalid("the array is in Fortran (column-major) order; save numpy.ascontiguousarray(array)");
  }
  if (expected != total_bytes) {
    return Invalid("shape ", FormatShape(header.shape), " of ", Name(*type), " makes ", expected,
                   " bytes with the header, but there are ", total_bytes);
  }
  return header;
}

absl::StatusOr<NpyFile> NpyFile::Open(const std::string& path) {
  absl::StatusOr<InputFile> file = InputFile::Open(path);
  if (!file.ok()) return file.status();
  absl::StatusOr<FileBytes> bytes = FileBytes::Map(*file);
  if (!bytes.ok()) return bytes.status();
  absl::StatusOr<NpyHeader> header = ParseNpyHeader(bytes->view(), file->size());
  if (!header.ok()) return Prefix(Cat(path, ": "), header.status());
  return NpyFile(path, *std::move(header), *std::move(bytes));
}

absl::StatusOr<std::vector<int64_t>> NpyFile::Integers() const {
  if (!IsInteger(type()) || shape().size() != 1) {
    return Invalid(path_, ": ", Name(type()), " ", FormatShape(shape()),
                   ", an integer array of one dimension expected");
  }
  std::vector<int64_t> values(static_cast<size_t>(num_elements()));
  for (size_t idx = 0; idx < values.size(); ++idx) {
    const std::optional<int64_t> value = LoadInteger(type(), data(), idx);
    if (!value.has_value()) return Invalid(path_, ": element ", idx, " is beyond 2^63 - 1");
    values[idx] = *value;
  }
  return values;
}

std::string FormatShape(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t extent : shape) absl::StrAppend(&text, text.size() > 1 ? ", " : "", extent);
  return text + "]";
}

}  // namespace maxsim::collection
