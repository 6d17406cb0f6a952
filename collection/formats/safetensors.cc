#include "collection/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/file.h"
#include "base/json_events.h"
#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

struct Dtype {
  std::string_view name;
  int bits;
};
constexpr std::array<Dtype, 20> kDtypes = {{{"F16", 16},    {"BF16", 16}, {"F32", 32}, {"F64", 64},    {"I64", 64},
                                            {"I32", 32},    {"I16", 16},  {"I8", 8},   {"U64", 64},    {"U32", 32},
                                            {"U16", 16},    {"U8", 8},    {"BOOL", 8}, {"F8_E4M3", 8}, {"F8_E5M2", 8},
                                            {"F8_E8M0", 8}, {"C64", 64},  {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6}}};

// Reads the header's JSON. Nesting level 1 is the header's object, level 2 a tensor or the metadata, level 3 a shape or
// a byte range.
class HeaderEvents : public JsonEvents {
 public:
  explicit HeaderEvents(SafetensorsHeader* header) : JsonEvents(3, Text::kSecret), header_(header) {}

 private:
  enum class Slot { kNone, kDtype, kShape, kOffsets };

  bool OnKey(std::string& key) override {
    if (depth() == 1) {
      if (!names_.insert(key).second) return Fail(Cat("tensor ", Quote(key), " appears twice"));
      in_metadata_ = key == kMetadataKey;
      tensor_ = SafetensorsTensor();
      tensor_.name = std::move(key);
      offsets_.clear();
      seen_dtype_ = seen_shape_ = seen_offsets_ = false;
      return true;
    }
    if (in_metadata_) {
      if (!metadata_keys_.insert(key).second) return Fail(Cat("metadata key ", Quote(key), " appears twice"));
      header_->metadata.emplace_back(std::move(key), std::string());
      return true;
    }
    bool* seen = nullptr;
    if (key == "dtype") {
      slot_ = Slot::kDtype;
      seen = &seen_dtype_;
    } else if (key == "shape") {
      slot_ = Slot::kShape;
      seen = &seen_shape_;
    } else if (key == "data_offsets") {
      slot_ = Slot::kOffsets;
      seen = &seen_offsets_;
    } else {
      return Fail(Cat(Where(), "unknown key ", Quote(key)));
    }
    if (std::exchange(*seen, true)) return Fail(Cat(Where(), "key ", Quote(key), " appears twice"));
    return true;
  }

  bool Value(std::string_view kind) override {
    if (depth() == 0) return Fail(Cat("an object expected, not ", kind));
    if (depth() == 1) return Fail(Cat(Where(), "an object expected, not ", kind));
    if (in_metadata_) return Fail(Cat("metadata: strings expected, not ", kind));
    return Fail(Cat(Where(), SlotName(), ": ", slot_ == Slot::kDtype ? "a string" : "integers from 0 to 2^63 - 1",
                    " expected, not ", kind));
  }
  bool OnString(std::string& value) override {
    if (depth() == 2 && in_metadata_) {
      header_->metadata.back().second = std::move(value);
      return true;
    }
    if (depth() != 2 || slot_ != Slot::kDtype) return Value("a string");
    tensor_.dtype = std::move(value);
    return true;
  }
  bool OnInteger(int64_t value) override {
    if (depth() != 3) return Value("a number");
    if (value < 0) return Value("a negative number");
    std::vector<int64_t>& list = slot_ == Slot::kShape ? tensor_.shape : offsets_;
    const size_t limit = slot_ == Slot::kShape ? kMaxSafetensorsRank : 2;
    if (list.size() == limit) return Fail(Cat(Where(), SlotName(), ": more than ", limit, " numbers"));
    list.push_back(value);
    return true;
  }
  bool OnStartObject() override { return depth() <= 2 || Value("an object"); }
  bool OnEndObject() override {
    if (depth() != 1 || in_metadata_) return true;
    if (!seen_dtype_ || !seen_shape_ || !seen_offsets_ || offsets_.size() != 2) {
      return Fail(Cat(Where(), "dtype, shape and two data_offsets expected"));
    }
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    header_->tensors.push_back(std::move(tensor_));
    return true;
  }
  bool OnStartArray() override {
    if (depth() == 2) return Fail(Cat(Where(), "an object expected, not an array"));
    if (depth() == 3 && !in_metadata_ && slot_ != Slot::kDtype) return true;
    return Value("an array");
  }

  std::string_view SlotName() const {
    switch (slot_) {
      case Slot::kDtype:
        return "dtype";
      case Slot::kShape:
        return "shape";
      case Slot::kOffsets:
        return "data_offsets";
      case Slot::kNone:
        break;
    }
    return "value";
  }
  std::string Where() const { return Cat("tensor ", Quote(tensor_.name), ": "); }

  SafetensorsHeader* const header_;
  std::unordered_set<std::string> names_;
  std::unordered_set<std::string> metadata_keys_;
  SafetensorsTensor tensor_;
  std::vector<int64_t> offsets_;
  Slot slot_ = Slot::kNone;
  bool in_metadata_ = false;
  bool seen_dtype_ = false;
  bool seen_shape_ = false;
  bool seen_offsets_ = false;
};

// Returns the size in bytes of a tensor with elements of `bits` bits. Returns nullopt if the size in bits exceeds 2^63
// - 1 or is not a whole number of bytes.
std::optional<int64_t> ShapeBytes(const SafetensorsTensor& tensor, int bits) {
  int64_t total_bits = bits;
  for (const int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(total_bits, extent, &total_bits)) return std::nullopt;
  }
  if (total_bits % 8 != 0) return std::nullopt;
  return total_bits / 8;
}

// Sorts the tensors by their byte ranges and checks the ranges. Changes the ranges from offsets in the data section to
// offsets in the file.
absl::Status PlaceTensors(SafetensorsHeader& header, int64_t file_size) {
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  const int64_t data_bytes = file_size - header.data_begin;
  int64_t expected = 0;
  for (SafetensorsTensor& tensor : header.tensors) {
    const std::string where = Cat("tensor ", Quote(tensor.name), ": ");
    const std::optional<int> bits = SafetensorsBits(tensor.dtype);
    if (!bits.has_value()) return Invalid(where, "unknown dtype ", Quote(tensor.dtype));
    if (tensor.begin > tensor.end || tensor.end > data_bytes) {
      return Invalid(where, "data_offsets [", tensor.begin, ", ", tensor.end, "] are outside of the data section of ",
                     data_bytes, " bytes");
    }
    if (tensor.begin != expected) {
      return Invalid(where, "data_offsets start at ", tensor.begin,
                     tensor.begin < expected ? ", inside the tensor before it, which ends at "
                                             : ", after a gap; the tensor before it ends at ",
                     expected);
    }
    const std::optional<int64_t> wanted = ShapeBytes(tensor, *bits);
    if (!wanted.has_value() || *wanted != tensor.num_bytes()) {
      return Invalid(where, "its shape needs ", wanted.has_value() ? Cat(*wanted) : "2^60 or an uneven number of",
                     " bytes, but its data_offsets hold ", tensor.num_bytes());
    }
    expected = tensor.end;
    tensor.begin += header.data_begin;
    tensor.end += header.data_begin;
  }
  if (expected != data_bytes) {
    return Invalid("the tensors end at byte ", expected, " of the data section, but the file ends at ", data_bytes);
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<int> SafetensorsBits(std::string_view dtype) {
  for (const Dtype& known : kDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return std::nullopt;
}

const SafetensorsTensor* SafetensorsHeader::Find(std::string_view name) const {
  for (const SafetensorsTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::optional<std::string_view> SafetensorsHeader::FindMetadata(std::string_view key) const {
  for (const auto& [name, value] : metadata) {
    if (name == key) return value;
  }
  return std::nullopt;
}

absl::StatusOr<int64_t> SafetensorsHeaderEnd(std::string_view first_bytes, int64_t file_size) {
  if (first_bytes.size() < kLengthBytes || file_size < static_cast<int64_t>(kLengthBytes)) {
    return Invalid("not a safetensors file: ", file_size, " bytes, shorter than the header's length field");
  }
  uint64_t length = 0;
  for (size_t idx = 0; idx < kLengthBytes; ++idx) {
    length |= static_cast<uint64_t>(static_cast<unsigned char>(first_bytes[idx])) << (8 * idx);
  }
  if (length > kMaxSafetensorsHeaderBytes) {
    // The message does not show the number, because in a file of another kind it means nothing.
    return Invalid("not a safetensors file: its header is longer than the limit of ", kMaxSafetensorsHeaderBytes,
                   " bytes");
  }
  const int64_t end = static_cast<int64_t>(kLengthBytes + length);
  if (end > file_size) {
    return Invalid("header length ", length, " is more than the file's ", file_size, " bytes hold");
  }
  return end;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view bytes, int64_t file_size) {
  absl::StatusOr<int64_t> end = SafetensorsHeaderEnd(bytes, file_size);
  if (!end.ok()) return end.status();
  if (static_cast<int64_t>(bytes.size()) < *end) return Invalid("the header is cut off");
  const std::string_view json = bytes.substr(kLengthBytes, static_cast<size_t>(*end) - kLengthBytes);
  // The format requires '{' as the first byte. This also excludes a byte order mark.
  if (json.empty() || json[0] != '{') return Invalid("not a safetensors file: its header does not start with '{'");
  SafetensorsHeader header;
  header.data_begin = *end;
  HeaderEvents events(&header);
  if (absl::Status status = events.Parse(json); !status.ok()) return Prefix("header: ", status);
  if (absl::Status status = PlaceTensors(header, file_size); !status.ok()) return status;
  return header;
}

absl::Status CheckFormat(const SafetensorsHeader& header, std::string_view format, std::string_view version) {
  const std::string_view found = header.FindMetadata("format").value_or("");
  if (found != format) return Invalid("__metadata__.format: ", Quote(found), ", expected ", Quote(format));
  const std::string_view found_version = header.FindMetadata("format_version").value_or("");
  if (found_version == version) return absl::OkStatus();
  return Invalid("__metadata__.format_version: ", Quote(found_version), "; this version reads ", Quote(version));
}

std::string FormatSafetensorsHeader(const std::vector<std::pair<std::string, std::string>>& metadata,
                                    std::vector<SafetensorsTensor>& tensors, int64_t alignment) {
  nlohmann::ordered_json json;
  for (const auto& [key, value] : metadata) json[std::string(kMetadataKey)][key] = value;
  int64_t next = 0;
  for (SafetensorsTensor& tensor : tensors) {
    tensor.begin = next;
    next += ShapeBytes(tensor, SafetensorsBits(tensor.dtype).value_or(0)).value_or(0);
    tensor.end = next;
    json[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump();
  const auto used = static_cast<int64_t>(kLengthBytes + text.size());
  const int64_t data_begin = (used + alignment - 1) / alignment * alignment;
  text.append(static_cast<size_t>(data_begin - used), ' ');
  std::string header(kLengthBytes, '\0');
  for (size_t idx = 0; idx < kLengthBytes; ++idx) header[idx] = static_cast<char>(text.size() >> (8 * idx) & 0xff);
  for (SafetensorsTensor& tensor : tensors) {
    tensor.begin += data_begin;
    tensor.end += data_begin;
  }
  return header + text;
}

absl::StatusOr<SafetensorsHeader> ReadSafetensorsHeader(const InputFile& file) {
  std::string bytes(static_cast<size_t>(std::min<int64_t>(8, file.size())), '\0');
  if (absl::Status status = file.ReadAt(0, bytes.data(), bytes.size()); !status.ok()) return status;
  absl::StatusOr<int64_t> end = SafetensorsHeaderEnd(bytes, file.size());
  if (!end.ok()) return end.status();
  bytes.resize(static_cast<size_t>(*end));
  if (absl::Status status = file.ReadAt(0, bytes.data(), bytes.size()); !status.ok()) return status;
  return ParseSafetensorsHeader(bytes, file.size());
}

}  // namespace maxsim::collection
