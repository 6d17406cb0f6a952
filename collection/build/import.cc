#include "collection/build/import.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "collection/build/array_input.h"
#include "collection/build/document_lines.h"
#include "collection/build/quantized_tokens.h"
#include "collection/document_line.h"
#include "collection/npy.h"
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

// Reads payloads out of a payload_bytes array, cut by the catalog's sizes.
class ArrayPayloads : public PayloadSource {
 public:
  ArrayPayloads(ArrayInput array, const Catalog* catalog) : array_(std::move(array)), catalog_(catalog) {}
  absl::StatusOr<std::string_view> Next() override {
    payload_.resize(static_cast<size_t>(catalog_->payload_sizes[next_]));
    if (absl::Status status = array_.bytes->Read(payload_.data(), payload_.size()); !status.ok()) return status;
    if (!payload_.empty()) {
      if (absl::Status status = CheckPayload(payload_); !status.ok()) {
        return Prefix(Cat(array_.origin, ": document ", next_, ": "), status);
      }
    }
    ++next_;
    return payload_;
  }

 private:
  ArrayInput array_;
  const Catalog* const catalog_;
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
    return Invalid(array->origin, ": ", array->shape[1], " columns, the limits are ", kMinDim, " .. ", kMaxDim);
  }
  return array;
}

// Token counts, one an entry, that sum to `num_tokens`.
absl::StatusOr<std::vector<int32_t>> ReadLengthArray(ArrayInput& array, int64_t num_tokens) {
  std::vector<int32_t> lengths;
  int64_t sum = 0;
  // Every document has a token, so there cannot be more documents than tokens.
  absl::Status status = ForEachInteger(array, num_tokens, [&](int64_t idx, int64_t length) {
    if (length < 1 || length > kMaxDocumentTokens) {
      return Invalid(array.origin, ": document ", idx, " has ", length, " tokens, the limits are 1 .. ",
                     kMaxDocumentTokens);
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

// Reads entries that start at 0, end at `total` and grow by `low` .. `high`, and returns their differences. `max_steps`
// bounds their number.
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
      return Invalid(array.origin, "[", idx, "]: ", length, " more than the entry before, the limits are ", low, " .. ",
                     high);
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

// Returns one difference for each document.
absl::StatusOr<std::vector<int32_t>> ReadSizes(ArrayInput& array, int64_t num_documents, int64_t low, int64_t high,
                                               int64_t total) {
  // An array that is too long, or of another kind, is refused by the reader.
  if (array.shape.size() == 1 && array.shape[0] < num_documents + 1) {
    return Invalid(array.origin, ": ", array.shape[0], " entries, expected ", num_documents + 1);
  }
  return ReadOffsetArray(array, num_documents, low, high, total);
}

// Does, one after another, what OpenImport promises.
class Importer {
 public:
  Importer(const ImportOptions& options, const BuildObserver& observer) : options_(options), observer_(observer) {}

  absl::StatusOr<Import> Open();

 private:
  absl::StatusOr<std::vector<int32_t>> ReadLengths(int64_t num_tokens);
  absl::Status ReadIds();
  absl::Status ReadLines();
  absl::Status ReadIdArray();
  absl::Status ReadIdBytes();
  absl::Status ReadPayloadOffsets();
  absl::StatusOr<std::unique_ptr<TokenSource>> MakeTokens(ArrayInput array);
  absl::Status Report(int64_t documents) {
    if (observer_ == nullptr) return absl::OkStatus();
    return observer_({.stage = BuildProgress::Stage::kReading,
                      .documents_done = documents,
                      .documents_total = static_cast<int64_t>(lengths_.size())});
  }
  int64_t num_documents() const { return static_cast<int64_t>(lengths_.size()); }
  void SetIdType(IdType type) { import_.catalog = std::make_unique<Catalog>(type); }

  const ImportOptions& options_;
  const BuildObserver& observer_;
  std::unique_ptr<ArrayArchive> archive_;
  std::vector<int32_t> lengths_;
  Import import_;
};

absl::StatusOr<std::vector<int32_t>> Importer::ReadLengths(int64_t num_tokens) {
  const bool has_lengths = archive_ == nullptr || archive_->Has(std::string(kLengths));
  const bool has_offsets = archive_ != nullptr && archive_->Has(std::string(kOffsets));
  if (has_lengths && has_offsets) {
    return Invalid(options_.input, ": both \"lengths\" and \"offsets\"; one of them is expected");
  }
  absl::StatusOr<ArrayInput> array = archive_ == nullptr
                                         ? OpenNpyArray(options_.lengths)
                                         : archive_->Open(std::string(has_offsets ? kOffsets : kLengths));
  if (!array.ok()) return array.status();
  return has_offsets ? ReadOffsetArray(*array, num_tokens, 1, kMaxDocumentTokens, num_tokens)
                     : ReadLengthArray(*array, num_tokens);
}

absl::Status Importer::ReadLines() {
  absl::StatusOr<InputFile> opened = InputFile::Open(options_.ids);
  if (!opened.ok()) return opened.status();
  auto file = std::make_shared<const InputFile>(*std::move(opened));
  DocumentLineReader reader(file, options_.id_type);
  std::vector<int32_t> payload_sizes;
  bool has_payloads = false;
  while (true) {
    absl::StatusOr<std::optional<DocumentLine>> line = reader.Next();
    if (!line.ok()) return line.status();
    const auto count = static_cast<int64_t>(payload_sizes.size());
    if (!line->has_value()) {
      if (count == num_documents()) break;
      return Invalid(options_.ids, ": ", count, " documents, but the lengths are those of ", num_documents());
    }
    if (count == num_documents()) {
      return Invalid(reader.Where(), "more documents than the ", num_documents(), " that have a length");
    }
    if (import_.catalog == nullptr) SetIdType(*reader.id_type());
    absl::Status added = *reader.id_type() == IdType::kInt64
                             ? import_.catalog->ids.Add((*line)->int_id)
                             : import_.catalog->ids.Add(std::string_view((*line)->string_id));
    // Without empty lines in between, document n stands on line n + 1.
    if (absl::IsAlreadyExists(added)) {
      return Prefix(reader.Where(), absl::InvalidArgumentError(Cat(added.message(), " (counted from 0)")));
    }
    if (!added.ok()) return Prefix(reader.Where(), added);
    payload_sizes.push_back(static_cast<int32_t>((*line)->payload.size()));
    has_payloads |= !(*line)->payload.empty();
    if (count % 4096 == 0) {
      if (absl::Status status = Report(count); !status.ok()) return status;
    }
  }
  if (has_payloads) {
    import_.catalog->payload_sizes = std::move(payload_sizes);
    import_.payloads = ReadLinePayloads(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status Importer::ReadIdArray() {
  absl::StatusOr<ArrayInput> array = archive_->Open(std::string(kIds));
  if (!array.ok()) {
    return Prefix(
        "", absl::Status(array.status().code(),
                         Cat(array.status().message(), "; ids that are strings go into a JSON Lines file, --ids")));
  }
  absl::StatusOr<std::vector<int64_t>> values = ReadIntegers(*array, num_documents());
  if (!values.ok()) return values.status();
  if (static_cast<int64_t>(values->size()) != num_documents()) {
    return Invalid(array->origin, ": ", values->size(), " ids for ", num_documents(), " documents");
  }
  SetIdType(options_.id_type.value_or(IdType::kInt64));
  for (size_t idx = 0; idx < values->size(); ++idx) {
    absl::Status added = import_.catalog->ids.type() == IdType::kInt64
                             ? import_.catalog->ids.Add((*values)[idx])
                             : import_.catalog->ids.Add(std::string_view(Cat((*values)[idx])));
    if (!added.ok()) return Invalid(array->origin, "[", idx, "]: ", added.message(), " (counted from 0)");
  }
  return absl::OkStatus();
}

absl::Status Importer::ReadIdBytes() {
  if (options_.id_type == IdType::kInt64) {
    return Invalid(options_.input, ": id_bytes holds strings, --id-type asks for int64");
  }
  absl::StatusOr<ArrayInput> bytes = archive_->Open(std::string(kIdBytes));
  if (!bytes.ok()) return bytes.status();
  if (bytes->type != ElementType::kU8 || bytes->shape.size() != 1) {
    return Invalid(bytes->origin, ": u8 of one dimension expected");
  }
  absl::StatusOr<ArrayInput> offsets = archive_->Open(std::string(kIdOffsets));
  if (!offsets.ok()) return offsets.status();
  absl::StatusOr<std::vector<int32_t>> sizes = ReadSizes(*offsets, num_documents(), 1, kMaxIdBytes, bytes->shape[0]);
  if (!sizes.ok()) return sizes.status();
  SetIdType(IdType::kString);
  std::string id;
  for (size_t idx = 0; idx < sizes->size(); ++idx) {
    id.resize(static_cast<size_t>((*sizes)[idx]));
    if (absl::Status status = bytes->bytes->Read(id.data(), id.size()); !status.ok()) return status;
    if (absl::Status added = import_.catalog->ids.Add(std::string_view(id)); !added.ok()) {
      return Invalid(bytes->origin, ": document ", idx, ": ", added.message(), " (counted from 0)");
    }
  }
  return absl::OkStatus();
}

absl::Status Importer::ReadPayloadOffsets() {
  if (archive_ == nullptr || !options_.ids.empty() || !archive_->Has(std::string(kPayloadBytes))) {
    return absl::OkStatus();
  }
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
  if (bytes->shape[0] == 0) return absl::OkStatus();
  import_.catalog->payload_sizes = *std::move(sizes);
  import_.payloads = std::make_unique<ArrayPayloads>(*std::move(bytes), import_.catalog.get());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TokenSource>> Importer::MakeTokens(ArrayInput array) {
  const std::string name(kScales);
  const bool has_scales = archive_ == nullptr ? !options_.scales.empty() : archive_->Has(name);
  const std::string rotation = archive_ == nullptr ? "" : archive_->FindMetadata(kRotationKey).value_or("");
  if (!IsQuantized(array.type)) {
    // Values that somebody scaled down, or rotated, are not the ones that they stand for.
    if (has_scales || !rotation.empty()) {
      return Invalid(array.origin, ": ", Name(array.type), " values with ", has_scales ? "scales" : "a rotation",
                     "; only i8 and f8_e4m3 ones can have them");
    }
    return std::make_unique<ArrayTokens>(std::move(array));
  }
  Quantization quantization;
  if (has_scales) {
    absl::StatusOr<ArrayInput> scales = archive_ == nullptr ? OpenNpyArray(options_.scales) : archive_->Open(name);
    if (!scales.ok()) return scales.status();
    quantization.scales = *std::move(scales);
  }
  if (!rotation.empty()) {
    absl::StatusOr<uint64_t> seed = ParseRotation(rotation, archive_->FindMetadata(kRotationSeedKey).value_or(""));
    if (!seed.ok()) return Prefix(Cat(options_.input, ": "), seed.status());
    quantization.rotation_seed = *seed;
  }
  return OpenQuantizedTokens(std::move(array), std::move(quantization), import_.catalog->lengths);
}

absl::Status Importer::ReadIds() {
  const bool has_ids = archive_ != nullptr && archive_->Has(std::string(kIds));
  const bool has_id_bytes = archive_ != nullptr && archive_->Has(std::string(kIdBytes));
  if (!options_.ids.empty()) {
    if (has_ids || has_id_bytes) {
      return Invalid("ids are given twice: in ", options_.input, " and in ", options_.ids, "; leave one out");
    }
    return ReadLines();
  }
  if (has_ids && has_id_bytes)
    return Invalid(options_.input, ": both \"ids\" and \"id_bytes\"; one of them is expected");
  if (has_ids) return ReadIdArray();
  if (has_id_bytes) return ReadIdBytes();
  SetIdType(options_.id_type.value_or(IdType::kInt64));
  for (int64_t id = 0; id < num_documents(); ++id) {
    // The ids are different by construction.
    (import_.catalog->ids.type() == IdType::kInt64 ? import_.catalog->ids.Add(id)
                                                   : import_.catalog->ids.Add(std::string_view(Cat(id))))
        .IgnoreError();
  }
  return absl::OkStatus();
}

absl::StatusOr<Import> Importer::Open() {
  if (absl::Status status = CheckImportOptions(options_); !status.ok()) return status;
  if (!options_.input.empty()) {
    absl::StatusOr<std::unique_ptr<ArrayArchive>> archive = OpenArchive(options_.input);
    if (!archive.ok()) return archive.status();
    archive_ = *std::move(archive);
  }
  absl::StatusOr<ArrayInput> tokens =
      OpenTokens(archive_ == nullptr ? OpenNpyArray(options_.tokens) : archive_->Open(std::string(kTokens)));
  if (!tokens.ok()) return tokens.status();
  absl::StatusOr<std::vector<int32_t>> lengths = ReadLengths(tokens->shape[0]);
  if (!lengths.ok()) return lengths.status();
  lengths_ = *std::move(lengths);
  if (lengths_.empty()) return Invalid(tokens->origin, ": no document in it");
  if (absl::Status status = ReadIds(); !status.ok()) return status;
  if (absl::Status status = ReadPayloadOffsets(); !status.ok()) return status;
  import_.catalog->lengths = std::move(lengths_);
  absl::StatusOr<std::unique_ptr<TokenSource>> source = MakeTokens(*std::move(tokens));
  if (!source.ok()) return source.status();
  import_.tokens = *std::move(source);
  return std::move(import_);
}

}  // namespace

absl::Status CheckImportOptions(const ImportOptions& options) {
  if (options.input.empty() ? options.tokens.empty() || options.lengths.empty()
                            : !options.tokens.empty() || !options.lengths.empty()) {
    return Invalid("either --input, or --tokens together with --lengths, is expected");
  }
  if (!options.input.empty() && !options.scales.empty()) {
    return Invalid("--scales goes with --tokens; an archive holds \"scales\" itself");
  }
  return absl::OkStatus();
}

absl::StatusOr<Import> OpenImport(const ImportOptions& options, const BuildObserver& observer) {
  return Importer(options, observer).Open();
}

}  // namespace maxsim::collection
