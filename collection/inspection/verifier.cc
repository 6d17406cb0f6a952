#include "collection/inspection/verifier.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "base/process/cores.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/catalog.h"
#include "collection/codes/codes_verifier.h"
#include "collection/codes/shard_codes.h"
#include "collection/document_line.h"
#include "collection/fields/fields_verifier.h"
#include "collection/fields/shard_fields.h"
#include "collection/formats/element_type.h"
#include "collection/shard.h"
#include "collection/slots.h"
#include "kernels/codes/code_layout.h"
#include "kernels/limits.h"
#include "kernels/residual_codes.h"
#include "kernels/thread_pool.h"

namespace maxsim::collection {
namespace {

class Verifier {
 public:
  Verifier(const std::string& folder, const Manifest& manifest)
      : folder_(folder), manifest_(manifest), ids_(manifest.id_type) {}

  // `tombstones` (may be null) must be ascending.
  ShardReport VerifyShard(const ShardEntry& entry, const std::vector<uint32_t>* tombstones);
  VerifyReport& report() { return report_; }

 private:
  void Problem(std::string problem) {
    ++report_.num_problems;
    if (report_.problems.size() < kMaxProblems) report_.problems.push_back(std::move(problem));
  }
  std::string Where(const Shard& shard, int64_t document) const;
  void CheckValues(const Shard& shard, QuantizationLoss* loss);
  void CheckRows(const Shard& shard, int64_t document, const char* rows, int64_t num_tokens);
  void CheckIds(const Shard& shard, const std::vector<uint32_t>* tombstones);
  void CheckSlots(const Shard& shard);
  void CheckOrdinals(const Shard& shard);
  void CheckPayloads(const Shard& shard);
  void CheckCodes(const Shard& shard, const ShardEntry& entry);
  void CheckFields(const Shard& shard, const ShardEntry& entry);
  template <typename Opened>
  Opened OpenChecked(const std::function<Opened(bool check_checksum)>& open);

  const std::string& folder_;
  const Manifest& manifest_;
  IdList ids_;
  int64_t last_ordinal_ = -1;  // of a partition's documents so far
  std::string last_ordinal_shard_;
  std::optional<ThreadPool> pool_;  // that compares codes
  VerifyReport report_;
};

std::string Verifier::Where(const Shard& shard, int64_t document) const {
  return Cat(shard.path(), ": document ", document, ", id ",
             shard.id_type() == IdType::kInt64 ? Cat(shard.int_id(document)) : Quote(shard.string_id(document)), ": ");
}

// Returns the reason why FindUnusableElement refused element `index`.
std::string DescribeUnusable(ScalarType storage, const void* data, size_t index) {
  if (storage == ScalarType::kI8) return "-128 is not in -127 .. 127";
  const ElementType type = storage == ScalarType::kF16    ? ElementType::kF16
                           : storage == ScalarType::kBF16 ? ElementType::kBF16
                                                          : ElementType::kF32;
  const double value = LoadFloat(type, data, index);
  return Cat(value, std::isfinite(value) ? Cat(" is beyond the limit of ", kMaxAbsValue) : " is not finite");
}

// Checks that each token's centroid is in the codebook. That is enough for residual codes: opening the shard has
// checked the codebook, and any other bits are valid.
void Verifier::CheckRows(const Shard& shard, int64_t document, const char* rows, int64_t num_tokens) {
  const DocumentsView& documents = shard.documents();
  const int64_t num_centroids = documents.codebook.num_centroids;
  const std::optional<int64_t> unusable =
      FindUnusableRow(documents.type, documents.dim, rows, num_tokens, num_centroids);
  if (!unusable.has_value()) return;
  const char* const row = rows + *unusable * RowBytes(documents.type, documents.dim);
  Problem(Cat(Where(shard, document), "token ", *unusable, ": has centroid ",
              ResidualCentroid(documents.type, documents.dim, row), " of ", num_centroids));
}

void Verifier::CheckValues(const Shard& shard, QuantizationLoss* loss) {
  const DocumentsView& documents = shard.documents();
  const int64_t row_bytes = RowBytes(documents.type, documents.dim);
  for (int64_t document = 0; document < documents.num_documents; ++document) {
    const int64_t first = documents.offsets[document];
    const int64_t num_tokens = documents.offsets[document + 1] - first;
    const char* data = static_cast<const char*>(documents.tokens) + first * row_bytes;
    if (IsResidual(documents.type)) {
      CheckRows(shard, document, data, num_tokens);
      continue;
    }
    if (documents.type == ScalarType::kI8 && documents.scales[document] > 0) {
      loss->Add(LossOf(reinterpret_cast<const int8_t*>(data), nullptr, num_tokens, documents.dim));
    }
    const std::optional<size_t> index =
        FindUnusableElement(documents.type, data, static_cast<size_t>(num_tokens * documents.dim));
    if (!index.has_value()) continue;
    Problem(Cat(Where(shard, document), "token ", *index / documents.dim, ", column ", *index % documents.dim, ": ",
                DescribeUnusable(documents.type, data, *index)));
  }
}

void Verifier::CheckIds(const Shard& shard, const std::vector<uint32_t>* tombstones) {
  for (int64_t document = 0; document < shard.documents().num_documents; ++document) {
    if (tombstones != nullptr &&
        std::binary_search(tombstones->begin(), tombstones->end(), static_cast<uint32_t>(document))) {
      continue;
    }
    const absl::Status added =
        shard.id_type() == IdType::kInt64 ? ids_.Add(shard.int_id(document)) : ids_.Add(shard.string_id(document));
    if (added.ok()) continue;
    Problem(Cat(shard.path(), ": document ", document, ": ", added.message(), " of those checked before"));
  }
}

// Checks that the ids of all documents, including deleted ones, have slots of the partition.
void Verifier::CheckSlots(const Shard& shard) {
  if (!manifest_.partition.has_value()) return;
  for (int64_t document = 0; document < shard.documents().num_documents; ++document) {
    const int32_t slot =
        shard.id_type() == IdType::kInt64 ? SlotOf(shard.int_id(document)) : SlotOf(shard.string_id(document));
    if (manifest_.partition->contains(slot)) continue;
    Problem(Cat(Where(shard, document), "is of slot ", slot, ", but the partition has ",
                DescribeSlots(*manifest_.partition)));
  }
}

// Checks that the shard's first ordinal is above the last ordinal of the shards before it. Opening the shard has
// checked that its own ordinals ascend.
void Verifier::CheckOrdinals(const Shard& shard) {
  if (shard.ordinals() == nullptr) return;
  if (shard.ordinals()[0] <= last_ordinal_) {
    Problem(Cat(shard.path(), ": ordinals[0]: ", shard.ordinals()[0], " is not above ", last_ordinal_,
                ", the last one of ", last_ordinal_shard_));
  }
  last_ordinal_ = shard.ordinals()[shard.documents().num_documents - 1];
  last_ordinal_shard_ = shard.path();
}

void Verifier::CheckPayloads(const Shard& shard) {
  if (!manifest_.has_payloads) return;
  for (int64_t document = 0; document < shard.documents().num_documents; ++document) {
    const std::string_view payload = shard.payload(document);
    if (payload.empty()) continue;
    if (absl::Status status = CheckPayload(payload); !status.ok()) {
      Problem(Cat(Where(shard, document), "payload: ", status.message()));
    }
  }
}

// Opens a file and verifies its checksum. If the checksum is wrong, reports that and opens the file without verifying
// it, because further checks may find where the error is.
template <typename Opened>
Opened Verifier::OpenChecked(const std::function<Opened(bool check_checksum)>& open) {
  Opened opened = open(true);
  if (opened.ok()) return opened;
  const std::string first = std::string(opened.status().message());
  Problem(first);
  // The file is damaged or partly unreadable. Tries again without the checksum.
  if (!absl::IsDataLoss(opened.status()) && !absl::IsUnavailable(opened.status())) return opened;
  opened = open(false);
  if (!opened.ok() && std::string(opened.status().message()) != first) Problem(std::string(opened.status().message()));
  return opened;
}

void Verifier::CheckCodes(const Shard& shard, const ShardEntry& entry) {
  if (!manifest_.codes.has_value()) return;
  const auto codes = OpenChecked<absl::StatusOr<std::shared_ptr<ShardCodes>>>([&](bool check_checksum) {
    return ShardCodes::Open(folder_, manifest_, entry, manifest_.codes->planes, Access::kMapped, check_checksum);
  });
  if (!codes.ok()) return;
  if (!pool_.has_value()) pool_.emplace(NumCores());
  const WrongCodes wrong = FindWrongCodes((*codes)->view(shard.documents()), shard.documents(), kMaxProblems, *pool_);
  for (const WrongCode& one : wrong.documents) Problem(Cat(Where(shard, one.document), "codes: ", one.what));
  report_.num_problems += wrong.num_documents - static_cast<int64_t>(wrong.documents.size());
  if (absl::Status status = (*codes)->Check(); !status.ok()) Problem(std::string(status.message()));
}

void Verifier::CheckFields(const Shard& shard, const ShardEntry& entry) {
  if (manifest_.fields.empty()) return;
  const auto fields = OpenChecked<absl::StatusOr<std::unique_ptr<ShardFields>>>(
      [&](bool check_checksum) { return ShardFields::Open(folder_, manifest_, entry, check_checksum); });
  if (!fields.ok()) return;
  const WrongFields wrong = FindWrongFields(manifest_.fields, (*fields)->columns(), shard, kMaxProblems);
  for (const WrongField& one : wrong.documents) Problem(Cat(Where(shard, one.document), one.what));
  report_.num_problems += wrong.num_documents - static_cast<int64_t>(wrong.documents.size());
}

ShardReport Verifier::VerifyShard(const ShardEntry& entry, const std::vector<uint32_t>* tombstones) {
  const int64_t problems_before = report_.num_problems;
  const auto shard = OpenChecked<absl::StatusOr<std::shared_ptr<Shard>>>(
      [&](bool check_checksum) { return Shard::Open(folder_, manifest_, entry, Access::kMapped, check_checksum); });
  const int64_t num_bytes = entry.num_bytes + CodeFileBytes(entry, kMaxPlanes) + FieldFileBytes(entry);
  ShardReport result{entry.file, entry.num_documents, entry.num_tokens, num_bytes, 0, {}};
  if (shard.ok()) {
    CheckValues(**shard, &result.loss);
    CheckIds(**shard, tombstones);
    CheckSlots(**shard);
    CheckOrdinals(**shard);
    CheckPayloads(**shard);
    CheckCodes(**shard, entry);
    CheckFields(**shard, entry);
    if (absl::Status status = (*shard)->Check(); !status.ok()) Problem(std::string(status.message()));
  }
  result.num_problems = report_.num_problems - problems_before;
  ++report_.num_shards;
  report_.num_documents += entry.num_documents;
  report_.num_tokens += entry.num_tokens;
  report_.num_bytes += num_bytes;
  report_.loss.Add(result.loss);
  return result;
}

}  // namespace

absl::StatusOr<VerifyReport> VerifyCollection(const std::string& folder,
                                              const std::function<void(const ShardReport&)>& on_shard,
                                              const std::vector<std::vector<uint32_t>>* tombstones) {
  absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return manifest.status();
  Verifier verifier(folder, *manifest);
  for (size_t shard = 0; shard < manifest->shards.size(); ++shard) {
    const bool has_tombstones = tombstones != nullptr && shard < tombstones->size();
    const ShardReport report =
        verifier.VerifyShard(manifest->shards[shard], has_tombstones ? &(*tombstones)[shard] : nullptr);
    if (on_shard != nullptr) on_shard(report);
  }
  return std::move(verifier.report());
}

std::string FormatLine(const ShardReport& report) {
  return Cat(report.file, "  ", FormatCount(report.num_documents), " documents  ", FormatCount(report.num_tokens),
             " tokens  ", FormatBytes(report.num_bytes), "  ",
             report.num_problems == 0
                 ? "ok"
                 : Cat(report.num_problems, report.num_problems == 1 ? " PROBLEM" : " PROBLEMS").c_str());
}

}  // namespace maxsim::collection
