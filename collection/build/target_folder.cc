#include "collection/build/target_folder.h"

#include <unistd.h>

#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/text.h"
#include "collection/build/field_files.h"
#include "collection/collection_name.h"
#include "collection/generations/kept_generations.h"
#include "collection/log/log_summary.h"

namespace maxsim::collection {

OutputFolder::~OutputFolder() {
  for (const std::filesystem::path& path : created_) ::rmdir(path.c_str());
}

absl::Status OutputFolder::Create(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::path path = folder; !path.empty() && !std::filesystem::exists(path, error);
       path = path.parent_path()) {
    created_.push_back(path);
  }
  return CreateFolders(folder);
}

TargetFolder::TargetFolder(const PartitionFolder& target)
    : folder_(target.folder),
      partition_(target.slots.is_whole() ? std::nullopt : std::optional(target.slots)),
      files_(target.folder) {}

absl::Status TargetFolder::Open() {
  if (absl::Status status = created_.Create(folder_); !status.ok()) return status;
  absl::StatusOr<FolderLock> lock = FolderLock::Acquire(folder_);
  if (!lock.ok()) return lock.status();
  lock_.emplace(*std::move(lock));
  absl::StatusOr<Manifest> manifest = ReadManifest(folder_);
  if (absl::IsNotFound(manifest.status())) return absl::OkStatus();
  if (!manifest.ok()) {
    return absl::FailedPreconditionError(
        Cat("the folder holds a manifest that cannot be read; remove it to start over: ", manifest.status().message()));
  }
  published_ = *std::move(manifest);
  return absl::OkStatus();
}

// Checks that the new generation has the properties that clients of the published one rely on.
absl::Status TargetFolder::CheckShape(const BuildOptions& options, const Catalog& catalog, int64_t dim) const {
  if (published_.generation == 0) return absl::OkStatus();
  const std::string there_is = Cat(folder_, ": generation ", published_.generation, " of ", Quote(published_.name));
  if (published_.partition != partition_) {
    return absl::FailedPreconditionError(Cat(there_is, " there has ", DescribeSlots(published_.slots()),
                                             ", but this build has ", DescribeSlots(partition_.value_or(SlotRange())),
                                             "; choose another folder"));
  }
  if (options.allow_other_shape) return absl::OkStatus();
  const auto differs = [&](const std::string& there, const std::string& here) {
    return absl::FailedPreconditionError(
        Cat(there_is, " there has ", there, ", but this input has ", here,
            ", which its clients do not expect; choose another folder, or give --allow-other-shape"));
  };
  if (dim != published_.dim) return differs(Cat("dimension ", published_.dim), Cat(dim));
  if (catalog.ids.type() != published_.id_type) {
    return differs(Cat("ids of type ", Name(published_.id_type)), std::string(Name(catalog.ids.type())));
  }
  if (published_.has_payloads && !catalog.has_payloads()) return differs("payloads", "none");
  for (const Field& field : published_.fields) {
    const Field* const now = FindField(options.fields, field.name);
    if (now != nullptr && now->kind == field.kind) continue;
    return differs(Cat("the field ", field.name, " of kind ", Name(field.kind)),
                   now == nullptr ? std::string("none of that name") : Cat("one of kind ", Name(now->kind)));
  }
  return absl::OkStatus();
}

absl::Status TargetFolder::Check(const BuildOptions& options, const Catalog& catalog, int64_t dim, int64_t generation) {
  if (absl::Status status = CheckShape(options, catalog, dim); !status.ok()) return status;
  if (generation <= published_.generation) {
    return absl::FailedPreconditionError(Cat(folder_, ": holds generation ", published_.generation,
                                             " already; generation ", generation, " cannot follow it"));
  }
  const LogFormat format{catalog.ids.type(), options.storage, static_cast<int32_t>(dim),
                         options.storage == ScalarType::kI8 ? options.rotation_seed : 0};
  absl::StatusOr<std::optional<uint64_t>> log_sequence = LogSequenceOfBuild(folder_, format, options.log_sequence);
  if (!log_sequence.ok()) return log_sequence.status();
  log_sequence_ = *log_sequence;
  // A live collection's fields must not change, because the payloads in its log were checked against them.
  if (log_sequence_.has_value() && published_.generation > 0 && options.fields != published_.fields) {
    return absl::FailedPreconditionError(Cat(folder_, ": is a live collection with the fields ",
                                             DescribeFields(published_.fields), ", which it keeps, but this build has ",
                                             DescribeFields(options.fields), "; choose another folder"));
  }
  return absl::OkStatus();
}

void TargetFolder::Add(ShardEntry entry) {
  files_.Add(entry.file);
  shards_.push_back(std::move(entry));
}

void TargetFolder::Complete(Manifest manifest) {
  manifest_ = std::move(manifest);
  manifest_.partition = partition_;
  manifest_.log_sequence = log_sequence_;
  manifest_.shards = std::move(shards_);
  for (const ShardEntry& entry : manifest_.shards) {
    manifest_.num_documents += entry.num_documents;
    manifest_.num_tokens += entry.num_tokens;
  }
}

absl::Status TargetFolder::WriteFields(const std::function<absl::Status()>& on_shard) {
  for (size_t idx = 0; idx < manifest_.shards.size(); ++idx) {
    absl::StatusOr<FileEntry> file = WriteFieldFile(folder_, manifest_, manifest_.shards[idx], manifest_.generation,
                                                    static_cast<int64_t>(idx), files_);
    if (!file.ok()) return file.status();
    manifest_.shards[idx].field_file = *std::move(file);
    if (absl::Status status = on_shard(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TargetFolder::Encode(const CodesFormat& format, ShardEncoder& encoder) {
  manifest_.codes = format;
  for (size_t idx = 0; idx < manifest_.shards.size(); ++idx) {
    // The checksum need not be verified, because this process has just written the shard.
    absl::StatusOr<std::vector<CodeFileEntry>> code_files =
        encoder.Encode(folder_, manifest_, manifest_.shards[idx], manifest_.generation, static_cast<int64_t>(idx),
                       /*check_checksum=*/false, files_);
    if (!code_files.ok()) return code_files.status();
    manifest_.shards[idx].code_files = *std::move(code_files);
  }
  return absl::OkStatus();
}

absl::Status TargetFolder::Publish(absl::Status* synchronised) {
  if (!manifest_.log_sequence.has_value()) {
    if (absl::Status status = KeepPrevious(folder_); !status.ok()) return status;
  }
  return PublishGeneration(manifest_, folder_, files_, synchronised);
}

absl::StatusOr<std::string> ChooseName(const BuildOptions& options, const std::vector<const TargetFolder*>& targets) {
  const Manifest* named = nullptr;
  for (const TargetFolder* const target : targets) {
    const Manifest& published = target->published();
    if (published.generation == 0) continue;
    const std::string& wanted = !options.name.empty() ? options.name : named != nullptr ? named->name : published.name;
    if (published.name != wanted) {
      return absl::FailedPreconditionError(Cat(target->folder(), ": holds the collection ", Quote(published.name),
                                               ", not ", Quote(wanted), "; choose another folder or that name"));
    }
    named = &published;
  }
  if (named != nullptr) return named->name;
  std::string name = options.name;
  if (name.empty()) {
    std::error_code error;
    const std::filesystem::path path = std::filesystem::weakly_canonical(options.folder, error);
    name = (path.has_filename() ? path : path.parent_path()).filename().string();
  }
  absl::Status status = CheckCollectionName(name);
  if (status.ok()) return name;
  if (!options.name.empty()) return status;
  return Invalid(status.message(), "; it is the name of the folder, because no name was given");
}

}  // namespace maxsim::collection
