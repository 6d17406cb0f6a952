#include "collection/inspection/inspect.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/codes/shard_codes.h"
#include "collection/fields/shard_fields.h"
#include "collection/shard.h"
#include "kernels/codes/code_layout.h"
#include "kernels/limits.h"

namespace maxsim::collection {
namespace {

// Returns the smallest length such that at least `share` (0 .. 1) of the documents are no longer than it. `counts[n]`
// is the number of documents with n tokens.
int64_t Quantile(const std::vector<int64_t>& counts, int64_t num_documents, double share) {
  const auto wanted = std::max<int64_t>(1, std::llround(share * static_cast<double>(num_documents)));
  int64_t seen = 0;
  for (size_t length = 0; length < counts.size(); ++length) {
    seen += counts[length];
    if (seen >= wanted) return static_cast<int64_t>(length);
  }
  return 0;
}

// Counts the quantisation loss of every `step`-th document in an i8 shard.
void CountLoss(const DocumentsView& documents, int64_t step, CollectionSummary::Loss& loss) {
  for (int64_t idx = 0; idx < documents.num_documents; idx += step) {
    const int64_t begin = documents.offsets[idx];
    const int64_t num_tokens = documents.offsets[idx + 1] - begin;
    loss.num_tokens_read += num_tokens;
    if (documents.scales[idx] == 0) continue;
    const auto* elements = static_cast<const int8_t*>(documents.tokens) + begin * documents.dim;
    loss.found.Add(LossOf(elements, nullptr, num_tokens, documents.dim));
  }
}

std::string DescribeLoss(const CollectionSummary& summary) {
  const CollectionSummary::Loss& loss = *summary.loss;
  std::string found = loss.found.num_tokens() == 0 ? "none" : Describe(loss.found);
  if (loss.num_tokens_read == summary.manifest.num_tokens) return found;
  return Cat(found, ", of ", FormatCount(loss.num_tokens_read), " tokens that were read; verify reads all");
}

}  // namespace

absl::StatusOr<CollectionSummary> Inspect(const std::string& folder) {
  absl::StatusOr<Manifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return manifest.status();
  CollectionSummary summary{folder, *std::move(manifest)};
  summary.token_bytes = summary.manifest.num_tokens * RowBytes(summary.manifest.storage, summary.manifest.dim);
  if (summary.manifest.storage == ScalarType::kI8) summary.loss = CollectionSummary::Loss{};
  summary.field_documents.resize(summary.manifest.fields.size());
  const int64_t step = (summary.token_bytes + kInspectedBytes - 1) / kInspectedBytes;
  std::vector<int64_t> counts(kMaxDocumentTokens + 1);
  for (const ShardEntry& entry : summary.manifest.shards) {
    absl::StatusOr<std::shared_ptr<const Shard>> shard =
        Shard::Open(folder, summary.manifest, entry, Access::kMapped, /*check_checksum=*/false);
    if (!shard.ok()) return shard.status();
    const DocumentsView& documents = (*shard)->documents();
    for (int64_t idx = 0; idx < documents.num_documents; ++idx) {
      ++counts[static_cast<size_t>(documents.offsets[idx + 1] - documents.offsets[idx])];
    }
    if (summary.loss.has_value()) CountLoss(documents, std::max<int64_t>(1, step), *summary.loss);
    summary.num_bytes += entry.num_bytes;
    if (summary.manifest.codes.has_value()) {
      const absl::StatusOr<std::shared_ptr<ShardCodes>> codes = ShardCodes::Open(
          folder, summary.manifest, entry, summary.manifest.codes->planes, Access::kMapped, /*check_checksum=*/false);
      if (!codes.ok()) return codes.status();
      summary.code_bytes += CodeFileBytes(entry, kMaxPlanes);
    }
    if (!summary.manifest.fields.empty()) {
      const absl::StatusOr<std::unique_ptr<ShardFields>> fields =
          ShardFields::Open(folder, summary.manifest, entry, /*check_checksum=*/false);
      if (!fields.ok()) return fields.status();
      summary.field_bytes += FieldFileBytes(entry);
      for (size_t idx = 0; idx < summary.field_documents.size(); ++idx) {
        summary.field_documents[idx] += (*fields)->columns()[idx].num_present;
      }
    }
  }
  const int64_t num_documents = summary.manifest.num_documents;
  if (num_documents > 0) {
    summary.lengths = {Quantile(counts, num_documents, 0), Quantile(counts, num_documents, 0.5),
                       static_cast<double>(summary.manifest.num_tokens) / static_cast<double>(num_documents),
                       Quantile(counts, num_documents, 0.99), Quantile(counts, num_documents, 1)};
  }
  return summary;
}

std::string DescribeWrites(uint64_t first_sequence, uint64_t last_sequence) {
  if (first_sequence == last_sequence) return Cat("no writes after ", last_sequence);
  return Cat(FormatCount(static_cast<int64_t>(last_sequence - first_sequence)), " writes, ", first_sequence + 1, " .. ",
             last_sequence);
}

std::string FormatTable(const CollectionSummary& summary) {
  const Manifest& manifest = summary.manifest;
  const LengthDistribution& lengths = summary.lengths;
  std::string text;
  const auto row = [&](std::string_view key, const std::string& value) {
    absl::StrAppendFormat(&text, "%-14s%s\n", std::string(key), value);
  };
  row("collection", manifest.name);
  row("folder", Printable(summary.folder, 4096));
  row("generation", FormatCount(manifest.generation));
  if (manifest.partition.has_value()) {
    row("partition", Cat(DescribeSlots(*manifest.partition), " of ", FormatCount(kNumSlots)));
  }
  // A manifest may have any text here, so makes it printable.
  constexpr size_t kLongest = 80;
  row("created", Cat(Printable(manifest.created_at, kLongest), " by ", Printable(manifest.created_by, kLongest)));
  row("documents", FormatCount(manifest.num_documents));
  row("tokens", FormatCount(manifest.num_tokens));
  row("tokens/doc", Cat("min ", lengths.min, "  median ", lengths.median, "  mean ",
                        absl::StrFormat("%.1f", lengths.mean), "  p99 ", lengths.p99, "  max ", lengths.max));
  row("dimension", Cat(manifest.dim));
  row("storage", manifest.storage == ScalarType::kI8
                     ? Cat(Name(manifest.storage), " (one scale per document, ", kRotationKind, " rotation of seed ",
                           manifest.rotation_seed, ")")
                     : std::string(Name(manifest.storage)));
  if (summary.loss.has_value()) row("lossy in i8", DescribeLoss(summary));
  if (manifest.encoder.has_value()) row("encoder", DescribeEncoder(*manifest.encoder));
  row("ids", std::string(Name(manifest.id_type)));
  row("payloads", manifest.has_payloads ? "yes" : "no");
  row("bytes", Cat(FormatBytes(summary.num_bytes), " (token vectors: ", FormatBytes(summary.token_bytes), ")"));
  if (manifest.codes.has_value()) {
    row("codes", Cat(DescribeCodes(manifest.codes), ", ", FormatBytes(summary.code_bytes)));
  }
  for (size_t idx = 0; idx < manifest.fields.size(); ++idx) {
    const int64_t count = summary.field_documents[idx];
    row(idx == 0 ? "fields" : "", Cat(FormatFields({manifest.fields[idx]}), ", in ", FormatCount(count),
                                      count == 1 ? " document" : " documents"));
  }
  if (!manifest.fields.empty()) row("", Cat(FormatBytes(summary.field_bytes), " in all"));
  if (summary.log.has_value()) {
    const CollectionSummary::Log& log = *summary.log;
    row("log", Cat(DescribeWrites(log.first_sequence, log.last_sequence), ", ",
                   FormatBytes(static_cast<int64_t>(log.num_bytes)), "; the shards hold those up to ",
                   manifest.log_sequence.has_value() ? Cat(*manifest.log_sequence) : std::string("(unknown)"), "; ",
                   FormatCount(log.num_tombstones), " of their documents were replaced or deleted"));
  }

  size_t width = 5;
  for (const ShardEntry& entry : manifest.shards) width = std::max(width, entry.file.size());
  const int pad = static_cast<int>(width);
  absl::StrAppendFormat(&text, "\n%-*s %14s %14s %12s  %s\n", pad, "shard", "documents", "tokens", "bytes", "checksum");
  for (const ShardEntry& entry : manifest.shards) {
    absl::StrAppendFormat(&text, "%-*s %14s %14s %12s  %s\n", pad, entry.file, FormatCount(entry.num_documents),
                          FormatCount(entry.num_tokens), FormatBytes(entry.num_bytes), entry.checksum);
  }
  return text;
}

std::string FormatJson(const CollectionSummary& summary) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(FormatManifest(summary.manifest));
  json["folder"] = summary.folder;
  json["num_bytes"] = summary.num_bytes;
  json["token_bytes"] = summary.token_bytes;
  if (summary.manifest.codes.has_value()) json["code_bytes"] = summary.code_bytes;
  if (!summary.manifest.fields.empty()) {
    json["field_bytes"] = summary.field_bytes;
    for (size_t idx = 0; idx < summary.manifest.fields.size(); ++idx) {
      json["field_documents"][summary.manifest.fields[idx].name] = summary.field_documents[idx];
    }
  }
  json["tokens_per_document"] = {{"min", summary.lengths.min},
                                 {"median", summary.lengths.median},
                                 {"mean", summary.lengths.mean},
                                 {"p99", summary.lengths.p99},
                                 {"max", summary.lengths.max}};
  if (summary.loss.has_value()) {
    json["lossy_tokens"] = {{"tokens_read", summary.loss->num_tokens_read},
                            {"documents", summary.loss->found.num_documents},
                            {"zeroed", summary.loss->found.num_zeroed},
                            {"coarse", summary.loss->found.num_coarse}};
  }
  if (summary.log.has_value()) {
    json["log"] = {{"first_sequence", summary.log->first_sequence},
                   {"last_sequence", summary.log->last_sequence},
                   {"num_bytes", summary.log->num_bytes},
                   {"num_tombstones", summary.log->num_tombstones}};
  }
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace maxsim::collection
