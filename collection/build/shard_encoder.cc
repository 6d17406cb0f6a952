#include "collection/build/shard_encoder.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/build/shard_plan.h"
#include "collection/codes/code_file.h"
#include "collection/file_checks.h"
#include "kernels/codes/code_layout.h"
#include "kernels/codes/encode.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {
namespace {

// Bytes of token vectors that are encoded before their codes are written: enough to keep all threads busy, and little
// compared with a machine's memory.
constexpr int64_t kBatchRowBytes = int64_t{64} << 20;

// Number of documents that a thread claims at a time.
constexpr int64_t kDocumentsAtATime = 16;

// Returns a view of the documents `begin` .. `end` - 1. `offsets` gets their offsets, to which the view points.
DocumentsView SubView(const DocumentsView& documents, int64_t begin, int64_t end, std::vector<int64_t>& offsets) {
  offsets.clear();
  const int64_t first = documents.offsets[begin];
  for (int64_t idx = begin; idx <= end; ++idx) offsets.push_back(documents.offsets[idx] - first);
  DocumentsView view = documents;
  const size_t row_bytes = static_cast<size_t>(documents.dim) * SizeOf(documents.type);
  view.num_documents = end - begin;
  view.tokens = static_cast<const std::byte*>(documents.tokens) + static_cast<size_t>(first) * row_bytes;
  view.offsets = offsets.data();
  if (documents.scales != nullptr) view.scales = documents.scales + begin;
  return view;
}

// Returns an error that says which value of a document cannot be encoded.
absl::Status DescribeUnusable(const Shard& shard, int64_t document, const absl::Status& status) {
  const DocumentsView& documents = shard.documents();
  const auto dim = static_cast<size_t>(documents.dim);
  const auto first = static_cast<size_t>(documents.offsets[document]);
  const size_t num_values = (static_cast<size_t>(documents.offsets[document + 1]) - first) * dim;
  const auto* const rows = static_cast<const std::byte*>(documents.tokens) + first * dim * SizeOf(documents.type);
  const std::optional<size_t> bad = FindUnusableElement(documents.type, rows, num_values);
  if (!bad.has_value()) return DataLoss(shard.path(), Cat("document ", document, ": ", MessageOf(status)));
  return DataLoss(shard.path(), Cat("document ", document, ", token ", *bad / dim, ", column ", *bad % dim,
                                    ": the value is not finite or too large"));
}

// Writes the files of a shard's codes, batch by batch.
class CodeFilesWriter {
 public:
  CodeFilesWriter(const Shard& shard, const Manifest& manifest, const ShardEntry& entry, ThreadPool& pool)
      : shard_(shard), manifest_(manifest), entry_(entry), pool_(pool) {}

  absl::Status Create(const std::string& folder, int64_t generation, int64_t index, UnpublishedFiles& files);
  absl::Status WriteAll(const ShardEncoder::OnProgress& on_progress);
  absl::StatusOr<std::vector<CodeFileEntry>> Finish();

 private:
  struct File {
    std::unique_ptr<OutputFile> output;
    CodeFileLayout layout;
    std::vector<uint8_t> rows;  // of a batch
    std::vector<CodeBound> bounds = {};
  };

  absl::Status EncodeBatch(int64_t begin, int64_t end);
  absl::Status WriteBatch(int64_t begin, int64_t end);

  const Shard& shard_;
  const Manifest& manifest_;
  const ShardEntry& entry_;
  ThreadPool& pool_;
  std::vector<File> files_;
  std::vector<CodeFileEntry> entries_;
  std::vector<int64_t> offsets_;  // of a batch
  std::vector<uint8_t> factors_;  // of a batch
  std::vector<float> scales_;
};

absl::Status CodeFilesWriter::Create(const std::string& folder, int64_t generation, int64_t index,
                                     UnpublishedFiles& files) {
  for (size_t idx = 0; idx < NumCodeFiles(manifest_.codes->planes); ++idx) {
    File file = {.output = nullptr, .layout = CodeFileLayoutOf(manifest_, entry_, idx), .rows = {}};
    const std::string name = CodeFileName(generation, index, idx);
    files.Add(name);
    absl::StatusOr<std::unique_ptr<OutputFile>> output = OutputFile::Create(JoinPath(folder, name));
    if (!output.ok()) return output.status();
    file.output = *std::move(output);
    if (absl::Status status = file.output->Write(FormatCodeFileHeader(file.layout)); !status.ok()) return status;
    file.bounds.resize(static_cast<size_t>(entry_.num_documents));
    files_.push_back(std::move(file));
    entries_.push_back({.file = name, .num_bytes = CodeFileSize(files_.back().layout), .checksum = ""});
  }
  scales_.resize(static_cast<size_t>(entry_.num_documents));
  return absl::OkStatus();
}

absl::Status CodeFilesWriter::EncodeBatch(int64_t begin, int64_t end) {
  const DocumentsView batch = SubView(shard_.documents(), begin, end, offsets_);
  const auto num_tokens = static_cast<size_t>(offsets_.back());
  for (File& file : files_) {
    file.rows.resize(num_tokens * static_cast<size_t>(PlaneFileRowBytes(file.layout.file, manifest_.dim)));
  }
  if (manifest_.codes->factors) factors_.resize(num_tokens);
  CodesOutput output = {.plane0 = files_[0].rows.data(),
                        .plane1 = files_.size() > 1 ? files_[1].rows.data() : nullptr,
                        .planes23 = files_.size() > 2 ? files_[2].rows.data() : nullptr,
                        .factors = manifest_.codes->factors ? factors_.data() : nullptr,
                        .scales = scales_.data() + begin};
  for (size_t idx = 0; idx < files_.size(); ++idx) output.bounds[idx] = files_[idx].bounds.data() + begin;
  const CodeShape shape = CodeShapeOf(manifest_);
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  absl::Status error;
  int64_t error_document = batch.num_documents;
  pool_.Run([&](int) {
    while (true) {
      const int64_t first = next.fetch_add(kDocumentsAtATime);
      for (int64_t idx = first; idx < std::min(first + kDocumentsAtATime, batch.num_documents); ++idx) {
        const absl::Status status = EncodeRange(shape, batch, idx, idx + 1, output);
        if (status.ok()) continue;
        const std::lock_guard lock(mutex);
        if (idx < error_document) {
          error = status;
          error_document = idx;
        }
        return;
      }
      if (first + kDocumentsAtATime >= batch.num_documents) return;
    }
  });
  if (!error.ok()) return DescribeUnusable(shard_, begin + error_document, error);
  return absl::OkStatus();
}

absl::Status CodeFilesWriter::WriteBatch(int64_t begin, int64_t end) {
  if (manifest_.codes->factors) {
    // In the file, the factors follow all rows of the plane.
    const int64_t rows_end =
        kWriterAlignment + entry_.num_tokens * PlaneFileRowBytes(files_[0].layout.file, manifest_.dim);
    absl::Status status =
        files_[0].output->WriteAhead(rows_end + shard_.documents().offsets[begin], factors_.data(), factors_.size());
    if (!status.ok()) return status;
  }
  for (File& file : files_) {
    if (absl::Status status = file.output->Write(file.rows.data(), file.rows.size()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CodeFilesWriter::WriteAll(const ShardEncoder::OnProgress& on_progress) {
  const DocumentsView& documents = shard_.documents();
  const int64_t row_bytes = documents.dim * static_cast<int64_t>(SizeOf(documents.type));
  const int64_t max_tokens = std::max<int64_t>(kBatchRowBytes / row_bytes, 1);
  for (int64_t begin = 0; begin < documents.num_documents;) {
    int64_t end = begin + 1;
    while (end < documents.num_documents && documents.offsets[end + 1] - documents.offsets[begin] <= max_tokens) ++end;
    if (absl::Status status = EncodeBatch(begin, end); !status.ok()) return status;
    if (absl::Status status = WriteBatch(begin, end); !status.ok()) return status;
    int64_t bytes = 0;
    for (const File& file : files_) bytes += static_cast<int64_t>(file.rows.size());
    if (on_progress != nullptr) {
      if (absl::Status status = on_progress(bytes); !status.ok()) return status;
    }
    begin = end;
  }
  // Fails if the mapped shard file changed while it was read.
  return shard_.Check();
}

absl::StatusOr<std::vector<CodeFileEntry>> CodeFilesWriter::Finish() {
  for (size_t idx = 0; idx < files_.size(); ++idx) {
    OutputFile& output = *files_[idx].output;
    absl::Status status;
    if (files_[idx].layout.has_factors()) status = output.TakeAhead(entry_.num_tokens);
    if (status.ok() && files_[idx].layout.has_scales()) {
      status = output.Write(scales_.data(), scales_.size() * sizeof(float));
    }
    if (status.ok()) status = output.Write(files_[idx].bounds.data(), files_[idx].bounds.size() * sizeof(CodeBound));
    if (!status.ok()) return status;
    if (output.num_bytes() != entries_[idx].num_bytes) {
      return absl::InternalError(
          Cat(entries_[idx].file, ": ", output.num_bytes(), " bytes written, ", entries_[idx].num_bytes, " planned"));
    }
    entries_[idx].checksum = output.checksum();
    if (absl::Status committed = output.Commit(); !committed.ok()) return committed;
  }
  return std::move(entries_);
}

}  // namespace

int64_t CodesBytes(const Manifest& manifest, const ShardEntry& entry) {
  if (!manifest.codes.has_value()) return 0;
  int64_t bytes = 0;
  for (size_t idx = 0; idx < NumCodeFiles(manifest.codes->planes); ++idx) {
    bytes += CodeFileSize(CodeFileLayoutOf(manifest, entry, idx));
  }
  return bytes;
}

absl::StatusOr<bool> NeedFactors(const std::vector<StoredShards>& collections) {
  int64_t num_documents = 0;
  for (const StoredShards& stored : collections) {
    for (const ShardEntry& entry : stored.manifest->shards) num_documents += entry.num_documents;
  }
  const int64_t num_sampled = std::min(num_documents, kSampledDocuments);
  double deviations = 0;
  int64_t num_tokens = 0;
  int64_t sampled = 0;
  int64_t first = 0;  // number of the shard's first document, counted over all collections
  std::vector<int64_t> offsets;
  for (const StoredShards& stored : collections) {
    for (const ShardEntry& entry : stored.manifest->shards) {
      const auto next = [&] { return sampled < num_sampled ? num_documents / num_sampled * sampled : num_documents; };
      if (next() < first + entry.num_documents) {
        const absl::StatusOr<std::shared_ptr<Shard>> shard =
            Shard::Open(stored.folder, *stored.manifest, entry, Access::kMapped, /*check_checksum=*/false);
        if (!shard.ok()) return shard.status();
        for (; next() < first + entry.num_documents; ++sampled) {
          const int64_t document = next() - first;
          const DocumentsView one = SubView((*shard)->documents(), document, document + 1, offsets);
          const double spread = NormSpread(one);
          deviations += spread * spread * static_cast<double>(offsets.back());
          num_tokens += offsets.back();
        }
        if (absl::Status status = (*shard)->Check(); !status.ok()) return status;
      }
      first += entry.num_documents;
    }
  }
  return num_tokens > 0 && std::sqrt(deviations / static_cast<double>(num_tokens)) > kMaxNormSpread;
}

absl::StatusOr<CodesFormat> ChooseCodesFormat(const CodesRequest& request,
                                              const std::vector<StoredShards>& collections) {
  const Manifest& first = *collections.front().manifest;
  CodesFormat format{.planes = request.planes,
                     .factors = request.factors.value_or(false),
                     .rotation_seed = first.storage == ScalarType::kI8 ? first.rotation_seed : request.rotation_seed};
  if (request.factors.has_value()) return format;
  const absl::StatusOr<bool> factors = NeedFactors(collections);
  if (!factors.ok()) return factors.status();
  format.factors = *factors;
  return format;
}

ShardEncoder::ShardEncoder(int num_threads, OnProgress on_progress)
    : on_progress_(std::move(on_progress)), pool_(std::max(num_threads, 1)) {}

absl::StatusOr<std::vector<CodeFileEntry>> ShardEncoder::Encode(const std::string& folder, const Manifest& manifest,
                                                                const ShardEntry& entry, int64_t generation,
                                                                int64_t index, bool check_checksum,
                                                                UnpublishedFiles& files) {
  const absl::StatusOr<std::shared_ptr<Shard>> shard =
      Shard::Open(folder, manifest, entry, Access::kMapped, check_checksum);
  if (!shard.ok()) return shard.status();
  CodeFilesWriter writer(**shard, manifest, entry, pool_);
  if (absl::Status status = writer.Create(folder, generation, index, files); !status.ok()) return status;
  if (absl::Status status = writer.WriteAll(on_progress_); !status.ok()) return status;
  return writer.Finish();
}

}  // namespace maxsim::collection
