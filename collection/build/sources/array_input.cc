#include "collection/build/sources/array_input.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "collection/formats/npy.h"
#include "collection/formats/safetensors.h"
#include "collection/formats/zip.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kNpySuffix = ".npy";

// Reads the header of a .npy stream of `total_bytes`, and leaves the stream at the first element.
absl::StatusOr<NpyHeader> ReadNpyHeader(ByteStream& stream, int64_t total_bytes) {
  // The magic, the version, and the length field (2 or 4 bytes). The header's text follows.
  constexpr int64_t kFixedBytes = 12;
  std::string bytes(static_cast<size_t>(std::min(kFixedBytes, total_bytes)), '\0');
  if (absl::Status status = stream.Read(bytes.data(), bytes.size()); !status.ok()) return status;
  if (static_cast<int64_t>(bytes.size()) < kFixedBytes) return ParseNpyHeader(bytes, total_bytes);
  const bool version_1 = bytes[6] == 1;
  const auto byte = [&](size_t idx) { return static_cast<int64_t>(static_cast<unsigned char>(bytes[idx])); };
  const int64_t length = version_1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  const int64_t header_bytes = (version_1 ? 10 : 12) + std::min(length, kMaxNpyHeaderBytes);
  const int64_t rest = std::min(header_bytes, total_bytes) - kFixedBytes;
  if (rest > 0) {
    bytes.resize(static_cast<size_t>(kFixedBytes + rest));
    if (absl::Status status = stream.Read(bytes.data() + kFixedBytes, static_cast<size_t>(rest)); !status.ok()) {
      return status;
    }
  }
  return ParseNpyHeader(bytes, total_bytes);
}

absl::StatusOr<ArrayInput> OpenNpyStream(std::string origin, std::unique_ptr<ByteStream> stream, int64_t total_bytes) {
  absl::StatusOr<NpyHeader> header = ReadNpyHeader(*stream, total_bytes);
  if (!header.ok()) return Prefix(Cat(origin, ": "), header.status());
  return ArrayInput{std::move(origin), header->type, std::move(header->shape), std::move(stream)};
}

// Lists names of arrays for a message: the first five and the total, because a file may have very many.
class NameList {
 public:
  void Add(std::string_view name) {
    constexpr size_t kMaxShown = 5;
    constexpr size_t kLongest = 80;
    if (++count_ <= kMaxShown) text_ += Cat(text_.empty() ? "" : ", ", Printable(name, kLongest));
    more_ = count_ > kMaxShown ? count_ - kMaxShown : 0;
    is_torch_ |=
        name == "data.pkl" || (name.size() > kPickle.size() && name.substr(name.size() - kPickle.size()) == kPickle);
  }
  std::string text() const {
    if (count_ == 0) return "nothing";
    std::string text = more_ == 0 ? text_ : Cat(text_, " and ", more_, " more");
    if (is_torch_) text += "; it is a file of torch.save, which `maxsim import --from pt` reads";
    return text;
  }

 private:
  static constexpr std::string_view kPickle = "/data.pkl";

  size_t count_ = 0;
  size_t more_ = 0;
  bool is_torch_ = false;
  std::string text_;
};

absl::Status NoArray(std::string_view path, std::string_view name, const NameList& names) {
  return absl::NotFoundError(Cat(path, ": no array \"", name, "\"; it holds: ", names.text()));
}

class NpzArchive : public ArrayArchive {
 public:
  NpzArchive(std::shared_ptr<const InputFile> file, std::vector<ZipMember> members)
      : file_(std::move(file)), members_(std::move(members)) {}

  bool Has(const std::string& name) const override { return Find(name) != nullptr; }
  std::optional<std::string> FindMetadata(std::string_view) const override { return std::nullopt; }

  absl::StatusOr<ArrayInput> Open(const std::string& name) const override {
    const ZipMember* member = Find(name);
    if (member == nullptr) {
      NameList names;
      for (const ZipMember& other : members_) names.Add(other.name);
      return NoArray(file_->path(), name, names);
    }
    return OpenNpyStream(Cat(file_->path(), ": ", member->name), ReadZipMember(file_, *member), member->size);
  }

 private:
  const ZipMember* Find(const std::string& name) const {
    for (const ZipMember& member : members_) {
      if (member.name == Cat(name, kNpySuffix)) return &member;
    }
    return nullptr;
  }

  const std::shared_ptr<const InputFile> file_;
  const std::vector<ZipMember> members_;
};

class SafetensorsArchive : public ArrayArchive {
 public:
  SafetensorsArchive(std::shared_ptr<const InputFile> file, SafetensorsHeader header)
      : file_(std::move(file)), header_(std::move(header)) {}

  bool Has(const std::string& name) const override { return header_.Find(name) != nullptr; }
  std::optional<std::string> FindMetadata(std::string_view key) const override {
    const std::optional<std::string_view> value = header_.FindMetadata(key);
    return value.has_value() ? std::optional<std::string>(*value) : std::nullopt;
  }

  absl::StatusOr<ArrayInput> Open(const std::string& name) const override {
    const SafetensorsTensor* tensor = header_.Find(name);
    if (tensor == nullptr) {
      NameList names;
      for (const SafetensorsTensor& other : header_.tensors) names.Add(other.name);
      return NoArray(file_->path(), name, names);
    }
    std::string origin = Cat(file_->path(), ": ", name);
    const std::optional<ElementType> type = ElementTypeFromSafetensors(tensor->dtype);
    if (!type.has_value()) {
      return Invalid(origin, ": dtype ", tensor->dtype,
                     " is not supported (F16, BF16, F32, F64, F8_E4M3 and the integers are)");
    }
    return ArrayInput{std::move(origin), *type, tensor->shape, ReadRange(file_, tensor->begin, tensor->end)};
  }

 private:
  const std::shared_ptr<const InputFile> file_;
  const SafetensorsHeader header_;
};

}  // namespace

absl::StatusOr<ArrayInput> OpenNpyArray(const std::string& path) {
  absl::StatusOr<InputFile> opened = InputFile::Open(path);
  if (!opened.ok()) return opened.status();
  auto file = std::make_shared<const InputFile>(*std::move(opened));
  return OpenNpyStream(path, ReadRange(file, 0, file->size()), file->size());
}

absl::StatusOr<std::unique_ptr<ArrayArchive>> OpenArchive(const std::string& path) {
  absl::StatusOr<InputFile> opened = InputFile::Open(path);
  if (!opened.ok()) return opened.status();
  auto file = std::make_shared<const InputFile>(*std::move(opened));
  std::array<char, 6> start = {};
  const auto count = static_cast<size_t>(std::min<int64_t>(start.size(), file->size()));
  if (absl::Status status = file->ReadAt(0, start.data(), count); !status.ok()) return status;
  const std::string_view magic(start.data(), count);
  if (magic == "\x93NUMPY") return Invalid(path, ": a single .npy array; give it as --tokens, with --lengths");
  if (magic.substr(0, 2) == "PK") {
    absl::StatusOr<FileBytes> bytes = FileBytes::Map(*file);
    if (!bytes.ok()) return bytes.status();
    absl::StatusOr<std::vector<ZipMember>> members = ParseZip(bytes->view());
    if (!members.ok()) return Prefix(Cat(path, ": "), members.status());
    return std::make_unique<NpzArchive>(std::move(file), *std::move(members));
  }
  absl::StatusOr<SafetensorsHeader> header = ReadSafetensorsHeader(*file);
  if (!header.ok()) return Prefix(Cat(path, ": neither .npz nor readable as safetensors: "), header.status());
  return std::make_unique<SafetensorsArchive>(std::move(file), *std::move(header));
}

absl::Status ForEachInteger(ArrayInput& array, int64_t max_count,
                            absl::FunctionRef<absl::Status(int64_t idx, int64_t value)> take) {
  if (!IsInteger(array.type) || array.shape.size() != 1) {
    return Invalid(array.origin, ": ", Name(array.type), " ", FormatShape(array.shape),
                   ", an integer array of one dimension expected");
  }
  const int64_t count = array.shape[0];
  if (count > max_count)
    return Invalid(array.origin, ": ", count, " entries, at most ", max_count, " are possible here");
  constexpr int64_t kBlockElements = 65536;
  std::vector<char> block(static_cast<size_t>(std::min(kBlockElements, count)) * SizeOf(array.type));
  for (int64_t begin = 0; begin < count; begin += kBlockElements) {
    const auto amount = static_cast<size_t>(std::min(kBlockElements, count - begin));
    if (absl::Status status = array.bytes->Read(block.data(), amount * SizeOf(array.type)); !status.ok()) return status;
    for (size_t idx = 0; idx < amount; ++idx) {
      const int64_t place = begin + static_cast<int64_t>(idx);
      const std::optional<int64_t> value = LoadInteger(array.type, block.data(), idx);
      if (!value.has_value()) return Invalid(array.origin, "[", place, "]: more than 2^63 - 1");
      if (absl::Status status = take(place, *value); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> ReadIntegers(ArrayInput& array, int64_t max_count) {
  std::vector<int64_t> values;
  absl::Status status = ForEachInteger(array, max_count, [&](int64_t, int64_t value) {
    values.push_back(value);
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return values;
}

}  // namespace maxsim::collection
