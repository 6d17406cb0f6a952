#include "collection/manifest.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/folder.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/manifest_parser.h"
#include "nlohmann/json.hpp"

namespace maxsim::collection {

std::string_view Name(IdType type) { return type == IdType::kString ? "string" : "int64"; }

int64_t BytesBesideTokens(const Manifest& manifest, const ShardEntry& entry) {
  // The product cannot overflow: a shard has at most 2^48 tokens (the parser has checked this) of at most 2^14 bytes.
  const int64_t row_bytes = RowBytes(manifest.storage, manifest.dim);
  return std::max<int64_t>(entry.num_bytes - entry.num_tokens * row_bytes, 0);
}

CodeShape CodeShapeOf(const Manifest& manifest) {
  return {.dim = manifest.dim,
          .originals = manifest.storage,
          .rotation_seed = manifest.codes->rotation_seed,
          .factors = manifest.codes->factors};
}

std::string DescribeCodes(const std::optional<CodesFormat>& codes) {
  if (!codes.has_value()) return "none";
  return Cat(codes->planes, codes->planes == 1 ? " plane, " : " planes, ",
             codes->factors ? "with factors" : "without factors", ", rotation seed ", codes->rotation_seed);
}

int64_t CodeFileBytes(const ShardEntry& entry, int planes) {
  int64_t num_bytes = 0;
  for (size_t idx = 0; idx < std::min(NumCodeFiles(planes), entry.code_files.size()); ++idx) {
    num_bytes += entry.code_files[idx].num_bytes;
  }
  return num_bytes;
}

std::string DescribeFields(const std::vector<Field>& fields) { return fields.empty() ? "none" : FormatFields(fields); }

int64_t FieldFileBytes(const ShardEntry& entry) {
  return entry.field_file.has_value() ? entry.field_file->num_bytes : 0;
}

std::string FingerprintOf(const Manifest& manifest) {
  Checksum checksum;
  const auto add = [&](const std::string& text) { checksum.Update(text.data(), text.size() + 1); };
  add(Cat(manifest.dim, " ", static_cast<int>(manifest.storage), " ", manifest.rotation_seed, " ",
          static_cast<int>(manifest.id_type), " ", manifest.num_centroids));
  add(DescribeCodes(manifest.codes));
  add(DescribeFields(manifest.fields));
  for (const ShardEntry& shard : manifest.shards) {
    add(shard.checksum);
    for (const FileEntry& file : shard.code_files) add(file.checksum);
    if (shard.field_file.has_value()) add(shard.field_file->checksum);
  }
  return checksum.Format();
}

int64_t FormatVersionOf(const Manifest& manifest) {
  if (!manifest.fields.empty()) return kFieldsFormatVersion;
  if (manifest.codes.has_value()) return kCodesFormatVersion;
  return manifest.partition.has_value() ? kPartitionFormatVersion : kManifestFormatVersion;
}

std::string FormatManifest(const Manifest& manifest) {
  nlohmann::ordered_json json;
  json["format"] = kManifestFormat;
  json["format_version"] = FormatVersionOf(manifest);
  json["name"] = manifest.name;
  json["generation"] = manifest.generation;
  if (manifest.partition.has_value()) {
    json[kPartitionKey] = {{kFirstSlotKey, manifest.partition->first}, {kEndSlotKey, manifest.partition->end}};
  }
  json["dim"] = manifest.dim;
  json["storage"] = Name(manifest.storage);
  if (manifest.storage == ScalarType::kI8) {
    json["rotation"] = {{"kind", kRotationKind}, {"seed", manifest.rotation_seed}};
  }
  if (IsResidual(manifest.storage)) json[kNumCentroidsKey] = manifest.num_centroids;
  if (manifest.codes.has_value()) {
    json[kCodesKey] = {{kCodePlanesKey, manifest.codes->planes},
                       {kCodeFactorsKey, manifest.codes->factors},
                       {kCodeRotationKey, kRotationKind},
                       {kCodeRotationSeedKey, manifest.codes->rotation_seed}};
  }
  json["id_type"] = Name(manifest.id_type);
  json["has_payloads"] = manifest.has_payloads;
  if (!manifest.fields.empty()) {
    nlohmann::ordered_json fields = nlohmann::ordered_json::array();
    for (const Field& field : manifest.fields) {
      fields.push_back({{kFieldNameKey, field.name}, {kFieldKindKey, Name(field.kind)}, {kFieldPathKey, field.path}});
    }
    json[kFieldsKey] = std::move(fields);
  }
  json["num_documents"] = manifest.num_documents;
  json["num_tokens"] = manifest.num_tokens;
  if (manifest.encoder.has_value()) {
    const EncoderIdentity& encoder = *manifest.encoder;
    json["encoder"] = {{"model", encoder.model},
                       {"fingerprint", encoder.fingerprint},
                       {"dim", encoder.dim},
                       {"query_prefix", encoder.query_prefix},
                       {"document_prefix", encoder.document_prefix},
                       {"query_length", encoder.query_length},
                       {"document_length", encoder.document_length},
                       {"query_expansion", encoder.query_expansion}};
  }
  json["created_by"] = manifest.created_by;
  json["created_at"] = manifest.created_at;
  if (manifest.log_sequence.has_value()) json[kLogSequenceKey] = *manifest.log_sequence;
  nlohmann::ordered_json shards = nlohmann::ordered_json::array();
  for (const ShardEntry& entry : manifest.shards) {
    nlohmann::ordered_json shard = {{"file", entry.file},
                                    {"num_documents", entry.num_documents},
                                    {"num_tokens", entry.num_tokens},
                                    {"num_bytes", entry.num_bytes},
                                    {"checksum", entry.checksum}};
    for (const CodeFileEntry& code_file : entry.code_files) {
      shard[kCodesKey].push_back(
          {{"file", code_file.file}, {"num_bytes", code_file.num_bytes}, {"checksum", code_file.checksum}});
    }
    if (entry.field_file.has_value()) {
      const FileEntry& fields = *entry.field_file;
      shard[kFieldsKey] = {{"file", fields.file}, {"num_bytes", fields.num_bytes}, {"checksum", fields.checksum}};
    }
    shards.push_back(std::move(shard));
  }
  json["shards"] = std::move(shards);
  // Replaces text that is not UTF-8. Otherwise the JSON library would throw an exception.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

absl::StatusOr<Manifest> ReadManifest(const Folder& folder) {
  const absl::StatusOr<InputFile> file = folder.Open(kManifestFileName);
  if (!file.ok()) return file.status();
  const absl::StatusOr<std::string> text = ReadSmallFile(*file, kMaxManifestFileBytes);
  if (!text.ok()) return text.status();
  return ParseManifest(*text, file->path());
}

absl::StatusOr<Manifest> ReadManifest(const std::string& folder) { return ReadManifest(Folder(folder)); }

absl::Status PublishManifest(const Manifest& manifest, const std::string& folder, absl::Status* synchronised) {
  const std::string text = FormatManifest(manifest);
  // Parses the text before publishing it, so that a mistake in this code cannot replace a good manifest.
  const std::string path = JoinPath(folder, kManifestFileName);
  if (absl::StatusOr<Manifest> check = ParseManifest(text, path); !check.ok()) return check.status();
  absl::StatusOr<std::unique_ptr<OutputFile>> file = OutputFile::Create(path);
  if (!file.ok()) return file.status();
  if (absl::Status status = (*file)->Write(text); !status.ok()) return status;
  if (absl::Status status = (*file)->Commit(); !status.ok()) return status;
  const absl::Status on_disk = SyncFolder(folder);
  if (synchronised != nullptr) *synchronised = on_disk;
  return absl::OkStatus();
}

}  // namespace maxsim::collection
