#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "collection/build/document_input.h"
#include "collection/build/sources/array_input.h"
#include "collection/build/sources/quantized_tokens.h"
#include "collection/document_line.h"
#include "collection/formats/npy.h"
#include "collection/shard_contents.h"
#include "kernels/limits.h"

namespace maxsim::collection {
namespace {

constexpr std::string_view kLengths = "lengths";

class ArrayTokens : public TokenSource {
 public:
  explicit ArrayTokens(ArrayInput array) : array_(std::move(array)) {}
  ElementType type() const override { return array_.type; }
  int64_t dim() const override { return array_.shape[1]; }
  int64_t num_tokens() const override { return array_.shape[0]; }
  absl::StatusOr<const void*> Next(int64_t num_rows) override {
    block_.resize(static_cast<size_t>(num_rows * dim()) * SizeOf(type()));
    if (absl::Status status = array_.bytes->Read(block_.data(), block_.size()); !status.ok()) return status;
    return block_.data();
  }

 private:
  ArrayInput array_;
  std::vector<char> block_;
};

// Reads payloads from the array payload_bytes, which holds them back to back. `sizes` has each payload's bytes.
class ArrayPayloads : public PayloadSource {
 public:
  ArrayPayloads(ArrayInput array, std::vector<int32_t> sizes) : array_(std::move(array)), sizes_(std::move(sizes)) {}
  absl::StatusOr<std::string_view> Next() override {
    payload_.resize(static_cast<size_t>(sizes_[next_]));
    if (absl::Status status = array_.bytes->Read(payload_.data(), payload_.size()); !status.ok()) return status;
    if (!payload_.empty()) {
      if (absl::Status status = CheckNewPayload(payload_); !status.ok()) {
        return Prefix(Cat(array_.origin, ": document ", next_, ": "), status);
      }
    }
    ++next_;
    return payload_;
  }

 private:
  ArrayInput array_;
  const std::vector<int32_t> sizes_;
  size_t next_ = 0;
  std::string payload_;
};

absl::StatusOr<ArrayInput> OpenTokens(absl::StatusOr<ArrayInput> array) {
  if (!array.ok()) return array.status();
  if (IsInteger(array->type) && array->type != ElementType::kI8) {
    return Invalid(array->origin, ": ", Name(array->type),
                   " values; f16, bf16, f32, f64, f8_e4m3 and, with scales, i8 can be imported");
  }
  if (array->shape.size() != 2) {
    return Invalid(array->origin, ": shape ", FormatShape(array->shape),
                   ", expected [tokens of all documents, columns]");
  }
  if (array->shape[1] < kMinDim || array->shape[1] > kMaxDim) {
    return Invalid(array->origin, ": ", array->shape[1], " columns; must be ", kMinDim, " to ", kMaxDim);
  }
  return array;
}

// Reads the token count of each document. Their sum must be `num_tokens`.
absl::StatusOr<std::vector<int32_t>> ReadLengthArray(ArrayInput& array, int64_t num_tokens) {
  std::vector<int32_t> lengths;
  int64_t sum = 0;
  // Every document has a token, so there cannot be more documents than tokens.
  absl::Status status = ForEachInteger(array, num_tokens, [&](int64_t idx, int64_t length) {
    if (length < 1 || length > kMaxDocumentTokens) {
      return Invalid(array.origin, ": document ", idx, " has ", length, " tokens; must be 1 to ", kMaxDocumentTokens);
    }
    if (length > num_tokens - sum) {
      return Invalid(array.origin, ": the lengths up to document ", idx, " sum to ", sum + length,
                     ", but there are only ", num_tokens, " token vectors");
    }
    sum += length;
    lengths.push_back(static_cast<int32_t>(length));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (sum != num_tokens) {
    return Invalid(array.origin, ": the lengths sum to ", sum, ", but there are ", num_tokens, " token vectors");
  }
  return lengths;
}

// Reads offsets. The first must be 0 and the last `total`; each must exceed the previous one by `low` .. `high`.
// Returns these differences. Fails if there are more than `max_steps`.
absl::StatusOr<std::vector<int32_t>> ReadOffsetArray(ArrayInput& array, int64_t max_steps, int64_t low, int64_t high,
                                                     int64_t total) {
  std::vector<int32_t> lengths;
  int64_t last = 0;
  absl::Status status = ForEachInteger(array, max_steps + 1, [&](int64_t idx, int64_t offset) {
    if (idx == 0) return offset == 0 ? absl::OkStatus() : Invalid(array.origin, ": the first entry must be 0");
    if (offset < last || offset > total) {
      return Invalid(array.origin, "[", idx, "]: ", offset, " is not in ", last, " .. ", total);
    }
    const int64_t length = offset - last;
    if (length < low || length > high) {
      return Invalid(array.origin, "[", idx, "]: ", length, " more than the entry before; must be ", low, " to ", high);
    }
    last = offset;
    lengths.push_back(static_cast<int32_t>(length));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (array.shape[0] == 0) return Invalid(array.origin, ": the first entry must be 0");
  if (last != total) return Invalid(array.origin, ": ends at ", last, ", expected ", total);
  return lengths;
}

// Returns one size per document: the differences of the array's entries.
absl::StatusOr<std::vector<int32_t>> ReadSizes(ArrayInput& array, int64_t num_documents, int64_t low, int64_t high,
                                               int64_t total) {
  // The reader refuses an array that is too long or that has a wrong type.
  if (array.shape.size() == 1 && array.shape[0] < num_documents + 1) {
    return Invalid(array.origin, ": ", array.shape[0], " entries, expected ", num_documents + 1);
  }
  return ReadOffsetArray(array, num_documents, low, high, total);
}

// Reads documents from the arrays of an archive or, if `archive` is null, from .npy files.
class ArrayDocuments : public DocumentInput {
 public:
  ArrayDocuments(std::string path, std::unique_ptr<ArrayArchive> archive)
      : path_(std::move(path)), archive_(std::move(archive)) {}

  absl::Status Open(absl::StatusOr<ArrayInput> tokens, const std::string& lengths, std::string scales) {
    tokens = OpenTokens(std::move(tokens));
    if (!tokens.ok()) return tokens.status();
    absl::StatusOr<std::vector<int32_t>> read = ReadLengths(lengths, tokens->shape[0]);
    if (!read.ok()) return read.status();
    lengths_ = *std::move(read);
    if (lengths_.empty()) return Invalid(tokens->origin, ": it holds no document");
    scales_ = std::move(scales);
    dim_ = tokens->shape[1];
    tokens_ = *std::move(tokens);
    return absl::OkStatus();
  }

  const std::string& path() const override { return path_; }
  int64_t dim() const override { return dim_; }
  const std::vector<int32_t>& lengths() const override { return lengths_; }
  bool HasIds() const override { return Has(kIds) || Has(kIdBytes); }
  absl::Status AddIds(IdCollector& ids) override;
  absl::StatusOr<std::vector<int32_t>> ReadPayloadSizes() override;
  absl::StatusOr<std::unique_ptr<TokenSource>> MakeTokens() override;
  std::unique_ptr<PayloadSource> MakePayloads() override {
    return std::make_unique<ArrayPayloads>(*std::move(payload_bytes_), std::move(payload_sizes_));
  }

 private:
  bool Has(std::string_view name) const { return archive_ != nullptr && archive_->Has(std::string(name)); }
  int64_t num_documents() const { return static_cast<int64_t>(lengths_.size()); }
  absl::StatusOr<std::vector<int32_t>> ReadLengths(const std::string& path, int64_t num_tokens);
  absl::Status AddIdArray(IdCollector& ids);
  absl::Status AddIdBytes(IdCollector& ids);

  const std::string path_;
  const std::unique_ptr<ArrayArchive> archive_;
  std::string scales_;  // path, without an archive
  int64_t dim_ = 0;
  std::vector<int32_t> lengths_;
  ArrayInput tokens_;
  std::optional<ArrayInput> payload_bytes_;
  std::vector<int32_t> payload_sizes_;
};

absl::StatusOr<std::vector<int32_t>> ArrayDocuments::ReadLengths(const std::string& path, int64_t num_tokens) {
  const bool has_offsets = Has(kOffsets);
  if (Has(kLengths) && has_offsets) {
    return Invalid(path_, ": holds both \"lengths\" and \"offsets\"; must hold only one of them");
  }
  absl::StatusOr<ArrayInput> array =
      archive_ == nullptr ? OpenNpyArray(path) : archive_->Open(std::string(has_offsets ? kOffsets : kLengths));
  if (!array.ok()) return array.status();
  return has_offsets ? ReadOffsetArray(*array, num_tokens, 1, kMaxDocumentTokens, num_tokens)
                     : ReadLengthArray(*array, num_tokens);
}

absl::Status ArrayDocuments::AddIds(IdCollector& ids) {
  if (Has(kIds) && Has(kIdBytes)) {
    return Invalid(path_, ": holds both \"ids\" and \"id_bytes\"; must hold only one of them");
  }
  return Has(kIds) ? AddIdArray(ids) : AddIdBytes(ids);
}

absl::Status ArrayDocuments::AddIdArray(IdCollector& ids) {
  absl::StatusOr<ArrayInput> array = archive_->Open(std::string(kIds));
  if (!array.ok()) {
    return absl::Status(array.status().code(),
                        Cat(array.status().message(), "; ids that are strings go into a file of their own, --ids"));
  }
  absl::StatusOr<std::vector<int64_t>> values = ReadIntegers(*array, num_documents());
  if (!values.ok()) return values.status();
  if (static_cast<int64_t>(values->size()) != num_documents()) {
    return Invalid(array->origin, ": ", values->size(), " ids for ", num_documents(), " documents");
  }
  for (size_t idx = 0; idx < values->size(); ++idx) {
    if (absl::Status added = ids.Add((*values)[idx]); !added.ok()) {
      return AtPlace(Cat(array->origin, "[", idx, "]: "), added);
    }
  }
  return absl::OkStatus();
}

absl::Status ArrayDocuments::AddIdBytes(IdCollector& ids) {
  absl::StatusOr<ArrayInput> bytes = archive_->Open(std::string(kIdBytes));
  if (!bytes.ok()) return bytes.status();
  if (bytes->type != ElementType::kU8 || bytes->shape.size() != 1) {
    return Invalid(bytes->origin, ": u8 of one dimension expected");
  }
  absl::StatusOr<ArrayInput> offsets = archive_->Open(std::string(kIdOffsets));
  if (!offsets.ok()) return offsets.status();
  absl::StatusOr<std::vector<int32_t>> sizes = ReadSizes(*offsets, num_documents(), 1, kMaxIdBytes, bytes->shape[0]);
  if (!sizes.ok()) return sizes.status();
  std::string id;
  for (size_t idx = 0; idx < sizes->size(); ++idx) {
    id.resize(static_cast<size_t>((*sizes)[idx]));
    if (absl::Status status = bytes->bytes->Read(id.data(), id.size()); !status.ok()) return status;
    if (absl::Status added = ids.Add(std::string_view(id)); !added.ok()) {
      return AtPlace(Cat(bytes->origin, ": document ", idx, ": "), added);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> ArrayDocuments::ReadPayloadSizes() {
  if (!Has(kPayloadBytes)) return std::vector<int32_t>();
  absl::StatusOr<ArrayInput> bytes = archive_->Open(std::string(kPayloadBytes));
  if (!bytes.ok()) return bytes.status();
  if (bytes->type != ElementType::kU8 || bytes->shape.size() != 1) {
    return Invalid(bytes->origin, ": u8 of one dimension expected");
  }
  absl::StatusOr<ArrayInput> offsets = archive_->Open(std::string(kPayloadOffsets));
  if (!offsets.ok()) return offsets.status();
  absl::StatusOr<std::vector<int32_t>> sizes =
      ReadSizes(*offsets, num_documents(), 0, kMaxPayloadBytes, bytes->shape[0]);
  if (!sizes.ok()) return sizes.status();
  if (bytes->shape[0] == 0) return std::vector<int32_t>();
  payload_bytes_ = *std::move(bytes);
  payload_sizes_ = *std::move(sizes);
  return payload_sizes_;
}

absl::StatusOr<std::unique_ptr<TokenSource>> ArrayDocuments::MakeTokens() {
  const bool has_scales = archive_ == nullptr ? !scales_.empty() : Has(kScales);
  const std::string rotation = archive_ == nullptr ? "" : archive_->FindMetadata(kRotationKey).value_or("");
  if (!IsQuantized(tokens_.type)) {
    // Refuses floating-point tokens with scales or a rotation: only quantised tokens can be converted back.
    if (has_scales || !rotation.empty()) {
      return Invalid(tokens_.origin, ": ", Name(tokens_.type), " values with ", has_scales ? "scales" : "a rotation",
                     "; only i8 and f8_e4m3 ones can have them");
    }
    return std::make_unique<ArrayTokens>(std::move(tokens_));
  }
  Quantization quantization;
  if (has_scales) {
    absl::StatusOr<ArrayInput> scales =
        archive_ == nullptr ? OpenNpyArray(scales_) : archive_->Open(std::string(kScales));
    if (!scales.ok()) return scales.status();
    quantization.scales = *std::move(scales);
  }
  if (!rotation.empty()) {
    absl::StatusOr<uint64_t> seed = ParseRotation(rotation, archive_->FindMetadata(kRotationSeedKey).value_or(""));
    if (!seed.ok()) return Prefix(Cat(path_, ": "), seed.status());
    quantization.rotation_seed = *seed;
  }
  return OpenQuantizedTokens(std::move(tokens_), std::move(quantization), std::move(lengths_));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DocumentInput>> OpenArchiveInput(const std::string& path) {
  absl::StatusOr<std::unique_ptr<ArrayArchive>> archive = OpenArchive(path);
  if (!archive.ok()) return archive.status();
  absl::StatusOr<ArrayInput> tokens = (*archive)->Open(std::string(kTokens));
  auto input = std::make_unique<ArrayDocuments>(path, *std::move(archive));
  if (absl::Status status = input->Open(std::move(tokens), "", ""); !status.ok()) return status;
  return input;
}

absl::StatusOr<std::unique_ptr<DocumentInput>> OpenNpyInput(const std::string& tokens, const std::string& lengths,
                                                            const std::string& scales) {
  auto input = std::make_unique<ArrayDocuments>(tokens, nullptr);
  if (absl::Status status = input->Open(OpenNpyArray(tokens), lengths, scales); !status.ok()) return status;
  return input;
}

}  // namespace maxsim::collection
