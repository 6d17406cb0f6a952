#include "collection/build/field_files.h"

#include <memory>
#include <utility>

#include "base/file.h"
#include "base/output_file.h"
#include "base/text.h"
#include "collection/fields/field_file_maker.h"
#include "collection/shard.h"

namespace maxsim::collection {

int64_t EstimateFieldBytes(const std::vector<Field>& fields, const ShardPlan& plan) {
  if (fields.empty()) return 0;
  constexpr int64_t kBytesPerValue = 17;  // an offset, a value, a bit
  return plan.payload_bytes + static_cast<int64_t>(fields.size()) * plan.num_documents * kBytesPerValue;
}

absl::StatusOr<FileEntry> WriteFieldFile(const std::string& folder, const Manifest& manifest, const ShardEntry& entry,
                                         int64_t generation, int64_t index, UnpublishedFiles& files) {
  const absl::StatusOr<std::shared_ptr<Shard>> opened =
      Shard::Open(folder, manifest, entry, Access::kMapped, /*check_checksum=*/false);
  if (!opened.ok()) return opened.status();
  const Shard& shard = **opened;
  FieldFileMaker maker(manifest.fields);
  for (int64_t document = 0; document < entry.num_documents; ++document) {
    const absl::Status status = maker.Add(shard.payload(document));
    if (status.ok()) continue;
    const std::string id =
        shard.id_type() == IdType::kInt64 ? Cat(shard.int_id(document)) : Quote(shard.string_id(document));
    return Prefix(Cat("document ", document, " of ", entry.file, ", id ", id, ": "), status);
  }
  const std::string name = FieldFileName(generation, index);
  files.Add(name);
  absl::StatusOr<std::unique_ptr<OutputFile>> output = OutputFile::Create(JoinPath(folder, name));
  if (!output.ok()) return output.status();
  if (absl::Status status = (*output)->Write(maker.Make()); !status.ok()) return status;
  FileEntry written{.file = name, .num_bytes = (*output)->num_bytes(), .checksum = (*output)->checksum()};
  if (absl::Status status = (*output)->Commit(); !status.ok()) return status;
  return written;
}

}  // namespace maxsim::collection
