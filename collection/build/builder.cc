#include "collection/build/builder.h"

#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "base/process/cores.h"
#include "base/text.h"
#include "collection/build/field_files.h"
#include "collection/build/generation_files.h"
#include "collection/build/shard_encoder.h"
#include "collection/build/shard_plan.h"
#include "collection/build/shard_writer.h"
#include "collection/build/target_folder.h"
#include "kernels/limits.h"

namespace maxsim::collection {
namespace {

absl::Status CheckInput(const BuildOptions& options, const Catalog& catalog, const TokenSource& tokens,
                        const PayloadSource* payloads) {
  if (IsResidual(options.storage)) {
    return Invalid("storage: ", Name(options.storage),
                   " can only be imported from an index, by maxsim import; choose another storage");
  }
  if (options.storage == ScalarType::kI8 && options.rotation_seed > static_cast<uint64_t>(kMaxRotationSeed)) {
    return Invalid("seed: ", options.rotation_seed, "; must be 0 to ", kMaxRotationSeed);
  }
  if (absl::Status status = CheckCodesRequest(options.codes); !status.ok()) return status;
  if (absl::Status status = CheckFields(options.fields); !status.ok()) return Prefix("fields: ", status);
  if (!options.fields.empty() && !options.has_payloads && !catalog.has_payloads()) {
    return Invalid("fields: no document has a payload, from which their values are read");
  }
  if (options.max_shard_bytes < kMinMaxShardBytes) {
    return Invalid("max-shard-bytes: ", options.max_shard_bytes, "; must be at least ", kMinMaxShardBytes);
  }
  if (tokens.dim() < kMinDim || tokens.dim() > kMaxDim) {
    return Invalid("tokens: ", tokens.dim(), " columns; must be ", kMinDim, " to ", kMaxDim);
  }
  if (options.encoder.has_value() && options.encoder->dim != tokens.dim()) {
    return Invalid("encoder: dim: ", options.encoder->dim, ", but the token vectors' dim is ", tokens.dim());
  }
  if (catalog.ids.size() != catalog.num_documents()) {
    return Invalid(catalog.ids.size(), " ids for ", catalog.num_documents(), " documents");
  }
  if (catalog.has_payloads() &&
      (payloads == nullptr || static_cast<int64_t>(catalog.payload_sizes.size()) != catalog.num_documents())) {
    return Invalid(catalog.payload_sizes.size(), " payloads for ", catalog.num_documents(), " documents");
  }
  int64_t sum = 0;
  for (size_t document = 0; document < catalog.lengths.size(); ++document) {
    const int64_t length = catalog.lengths[document];
    if (length < 1 || length > kMaxDocumentTokens) {
      return Invalid("lengths[", document, "]: ", length, " tokens; must be 1 to ", kMaxDocumentTokens);
    }
    sum += length;
  }
  if (sum != tokens.num_tokens()) {
    return Invalid("lengths: they sum to ", sum, " tokens, but there are ", tokens.num_tokens(), " token vectors");
  }
  return absl::OkStatus();
}

// Each folder has an open lock and an open shard.
absl::Status CheckDescriptors(size_t num_folders) {
  constexpr size_t kOthers = 64;  // inputs, libraries
  const size_t needed = 2 * num_folders + kOthers;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || needed <= limit.rlim_cur) return absl::OkStatus();
  return absl::ResourceExhaustedError(Cat(num_folders, " partitions are written side by side, with up to ", needed,
                                          " files open, but this process may have only ", limit.rlim_cur,
                                          " (ulimit -n)"));
}

// Returns an upper bound of the bytes that the codes of a shard take.
int64_t MaxCodesBytes(const BuildOptions& options, int64_t dim, const ShardPlan& plan) {
  if (options.codes.planes == 0) return 0;
  const Manifest manifest{.name = "",
                          .dim = static_cast<int32_t>(dim),
                          .storage = options.storage,
                          .created_by = "",
                          .created_at = "",
                          .shards = {},
                          .codes = CodesFormat{options.codes.planes, options.codes.factors.value_or(true), 0}};
  return CodesBytes(manifest, {.file = "",
                               .num_documents = plan.num_documents,
                               .num_tokens = plan.num_tokens,
                               .num_bytes = plan.num_bytes,
                               .checksum = ""});
}

// Carries out one call of BuildPartitions, step by step.
class Build {
 public:
  Build(const BuildOptions& options, absl::Span<const PartitionFolder> partitions, const Catalog& catalog,
        TokenSource& tokens, PayloadSource* payloads, const BuildObserver& observer)
      : options_(options), catalog_(catalog), tokens_(tokens), payloads_(payloads), observer_(observer) {
    for (const PartitionFolder& one : partitions) targets_.push_back(std::make_unique<TargetFolder>(one));
    for (const std::unique_ptr<TargetFolder>& target : targets_) target_pointers_.push_back(target.get());
  }

  absl::StatusOr<std::vector<Manifest>> Run();

 private:
  absl::Status DealOut();
  absl::Status Plan();
  absl::Status OpenFolders();
  absl::Status CheckFolders();
  absl::Status WriteAll();
  void Complete();
  absl::Status WriteFields();
  absl::Status EncodeAll();
  absl::Status Publish();

  const BuildOptions& options_;
  const Catalog& catalog_;
  TokenSource& tokens_;
  PayloadSource* const payloads_;
  const BuildObserver& observer_;
  OutputFolder output_;  // outlives the folders in it
  std::vector<std::unique_ptr<TargetFolder>> targets_;
  std::vector<const TargetFolder*> target_pointers_;
  std::vector<int64_t> order_;  // documents of the first set, then of the second; empty where there is one set
  ShardSets sets_;
  std::string name_;
  int64_t generation_ = 0;
  int64_t codes_bytes_ = 0;  // that codes take at most
  int64_t field_bytes_ = 0;  // that fields take, about
  BuildProgress progress_;
};

// Decides which documents each folder gets.
absl::Status Build::DealOut() {
  sets_.sets.resize(targets_.size());
  constexpr uint16_t kNone = kNumSlots;
  std::vector<uint16_t> set_of_slot(kNumSlots, kNone);
  for (size_t idx = 0; idx < targets_.size(); ++idx) {
    const SlotRange slots = targets_[idx]->partition().value_or(SlotRange());
    for (int32_t slot = slots.first; slot < slots.end; ++slot) {
      uint16_t& set = set_of_slot[static_cast<size_t>(slot)];
      if (set != kNone) {
        return Invalid("partitions: ", targets_[set]->folder(), " and ", targets_[idx]->folder(), " both have slot ",
                       slot);
      }
      set = static_cast<uint16_t>(idx);
    }
  }
  const int64_t num_documents = catalog_.num_documents();
  sets_.layout.has_ordinals = targets_.front()->partition().has_value();
  if (!sets_.layout.has_ordinals) {
    sets_.sets.front().documents = {.size = num_documents};
    return absl::OkStatus();
  }
  // Groups the documents by the set (output folder) that has their slots. Documents of one set keep their order.
  std::vector<int64_t> ends(targets_.size());
  for (int64_t document = 0; document < num_documents; ++document) {
    const int32_t slot = catalog_.slot(document);
    const uint16_t set = set_of_slot[static_cast<size_t>(slot)];
    if (set == kNone) {
      return Invalid("document ", document, ", id ", catalog_.ids.Format(document), ": is of slot ", slot,
                     ", which is in none of the partitions");
    }
    ++ends[set];
  }
  order_.resize(static_cast<size_t>(num_documents));
  std::vector<int64_t> next(targets_.size());
  int64_t begin = 0;
  for (size_t idx = 0; idx < ends.size(); ++idx) {
    next[idx] = begin;
    sets_.sets[idx].documents = {.size = ends[idx], .numbers = order_.data() + begin};
    begin += ends[idx];
  }
  for (int64_t document = 0; document < num_documents; ++document) {
    const uint16_t set = set_of_slot[static_cast<size_t>(catalog_.slot(document))];
    order_[static_cast<size_t>(next[set]++)] = document;
  }
  sets_.set_of_slot = std::move(set_of_slot);
  return absl::OkStatus();
}

absl::Status Build::Plan() {
  sets_.layout.storage = options_.storage;
  sets_.layout.rotation_seed = options_.storage == ScalarType::kI8 ? options_.rotation_seed : 0;
  sets_.layout.dim = tokens_.dim();
  sets_.layout.id_type = catalog_.ids.type();
  sets_.layout.has_payloads = options_.has_payloads || catalog_.has_payloads();
  sets_.num_threads = ThreadsOrOnePerCore(options_.num_threads);
  sets_.refuse_lossy = options_.refuse_lossy;
  progress_.documents_total = catalog_.num_documents();
  for (size_t idx = 0; idx < sets_.sets.size(); ++idx) {
    ShardSet& set = sets_.sets[idx];
    set.folder = targets_[idx]->folder();
    set.plans = PlanShards(catalog_, set.documents, sets_.layout, options_.max_shard_bytes);
    const auto num_shards = static_cast<int64_t>(set.plans.size());
    if (num_shards > kMaxShards) {
      return Invalid("max-shard-bytes: ", options_.max_shard_bytes, " makes ", num_shards, " shards, the limit is ",
                     kMaxShards);
    }
    progress_.shards_total += num_shards;
    for (const ShardPlan& plan : set.plans) {
      progress_.bytes_total += plan.num_bytes;
      codes_bytes_ += MaxCodesBytes(options_, sets_.layout.dim, plan);
      field_bytes_ += EstimateFieldBytes(options_.fields, plan);
    }
  }
  return absl::OkStatus();
}

absl::Status Build::OpenFolders() {
  if (absl::Status status = output_.Create(options_.folder); !status.ok()) return status;
  for (const std::unique_ptr<TargetFolder>& target : targets_) {
    if (absl::Status status = target->Open(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Build::CheckFolders() {
  absl::StatusOr<std::string> name = ChooseName(options_, target_pointers_);
  if (!name.ok()) return name.status();
  name_ = *std::move(name);
  generation_ = options_.generation;
  if (generation_ == 0) {
    for (const TargetFolder* const target : target_pointers_) {
      generation_ = std::max(generation_, target->published().generation + 1);
    }
  }
  for (const std::unique_ptr<TargetFolder>& target : targets_) {
    absl::Status status = target->Check(options_, catalog_, tokens_.dim(), generation_);
    if (!status.ok()) return status;
  }
  for (const TargetFolder* const target : target_pointers_) target->RemoveLeftovers();
  return CheckSpace(options_.folder, progress_.bytes_total + codes_bytes_ + field_bytes_);
}

absl::Status Build::WriteAll() {
  for (ShardSet& set : sets_.sets) set.generation = generation_;
  return WriteShards(sets_, catalog_, tokens_, payloads_,
                     {.on_progress =
                          [this](int64_t documents, int64_t bytes) {
                            progress_.documents_done = documents;
                            progress_.bytes_done = bytes;
                            return Report(observer_, progress_, BuildProgress::Stage::kWriting);
                          },
                      .on_shard =
                          [this](size_t set_idx, ShardEntry entry) {
                            targets_[set_idx]->Add(std::move(entry));
                            progress_.shards_done += 1;
                            return Report(observer_, progress_, BuildProgress::Stage::kShardDone);
                          },
                      .loss = &progress_.loss});
}

// Makes the manifests, after the shards were written.
void Build::Complete() {
  progress_.documents_done = progress_.documents_total;
  progress_.bytes_done = progress_.bytes_total;
  const Manifest manifest{.name = name_,
                          .generation = generation_,
                          .dim = static_cast<int32_t>(tokens_.dim()),
                          .storage = options_.storage,
                          .rotation_seed = sets_.layout.rotation_seed,
                          .id_type = catalog_.ids.type(),
                          .has_payloads = sets_.layout.has_payloads,
                          .created_by = options_.created_by,
                          .created_at = CreationTime(),
                          .shards = {},
                          .encoder = options_.encoder,
                          .fields = options_.fields};
  for (const std::unique_ptr<TargetFolder>& target : targets_) target->Complete(manifest);
}

// Reads the values of fields from the payloads in the finished shards, as compaction and verification do.
absl::Status Build::WriteFields() {
  if (options_.fields.empty()) return absl::OkStatus();
  for (const std::unique_ptr<TargetFolder>& target : targets_) {
    const auto on_shard = [this] { return Report(observer_, progress_, BuildProgress::Stage::kEncoding); };
    if (absl::Status status = target->WriteFields(on_shard); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Computes the codes from the stored (rounded) vectors, so that the codes' score bounds hold for these vectors.
absl::Status Build::EncodeAll() {
  if (options_.codes.planes == 0) return absl::OkStatus();
  std::vector<StoredShards> collections;
  for (const TargetFolder* const target : target_pointers_) {
    collections.push_back({target->folder(), &target->manifest()});
  }
  const absl::StatusOr<CodesFormat> format = ChooseCodesFormat(options_.codes, collections);
  if (!format.ok()) return format.status();
  progress_.bytes_total += codes_bytes_;
  ShardEncoder encoder(sets_.num_threads, [this](int64_t bytes) {
    progress_.bytes_done += bytes;
    return Report(observer_, progress_, BuildProgress::Stage::kEncoding);
  });
  for (const std::unique_ptr<TargetFolder>& target : targets_) {
    if (absl::Status status = target->Encode(*format, encoder); !status.ok()) return status;
  }
  progress_.bytes_done = progress_.bytes_total;
  return absl::OkStatus();
}

absl::Status Build::Publish() {
  if (absl::Status status = Report(observer_, progress_, BuildProgress::Stage::kPublishing); !status.ok())
    return status;
  for (size_t idx = 0; idx < targets_.size(); ++idx) {
    absl::Status synchronised;
    absl::Status status = targets_[idx]->Publish(&synchronised);
    if (!status.ok()) {
      return idx == 0 ? status
                      : Prefix(Cat("only ", idx, " of ", targets_.size(),
                                   " partitions are published; build all of them again: "),
                               status);
    }
    progress_.synchronised.Update(synchronised);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Manifest>> Build::Run() {
  if (absl::Status status = CheckInput(options_, catalog_, tokens_, payloads_); !status.ok()) return status;
  if (absl::Status status = DealOut(); !status.ok()) return status;
  if (absl::Status status = Plan(); !status.ok()) return status;
  if (absl::Status status = OpenFolders(); !status.ok()) return status;
  if (absl::Status status = CheckFolders(); !status.ok()) return status;
  if (absl::Status status = WriteAll(); !status.ok()) return status;
  Complete();
  if (absl::Status status = WriteFields(); !status.ok()) return status;
  if (absl::Status status = EncodeAll(); !status.ok()) return status;
  if (absl::Status status = Publish(); !status.ok()) return status;
  // From here on the build has succeeded.
  Report(observer_, progress_, BuildProgress::Stage::kPublished).IgnoreError();
  std::vector<Manifest> manifests;
  for (const TargetFolder* const target : target_pointers_) {
    // If the folder could not be synced to disk, keeps the old files: a power failure may bring back the old manifest,
    // which needs them.
    if (progress_.synchronised.ok()) target->RemoveOld();
    manifests.push_back(target->manifest());
  }
  return manifests;
}

}  // namespace

absl::StatusOr<Manifest> BuildCollection(const BuildOptions& options, const Catalog& catalog, TokenSource& tokens,
                                         PayloadSource* payloads, const BuildObserver& observer) {
  if (catalog.num_documents() == 0) return Invalid("there is no document to build from");
  const PartitionFolder whole{options.folder, SlotRange()};
  absl::StatusOr<std::vector<Manifest>> manifests =
      Build(options, absl::MakeConstSpan(&whole, 1), catalog, tokens, payloads, observer).Run();
  if (!manifests.ok()) return manifests.status();
  return std::move(manifests->front());
}

absl::StatusOr<std::vector<Manifest>> BuildPartitions(const BuildOptions& options,
                                                      absl::Span<const PartitionFolder> partitions,
                                                      const Catalog& catalog, TokenSource& tokens,
                                                      PayloadSource* payloads, const BuildObserver& observer) {
  if (partitions.empty()) return Invalid("partitions: there is no folder");
  if (absl::Status status = CheckDescriptors(partitions.size()); !status.ok()) return status;
  return Build(options, partitions, catalog, tokens, payloads, observer).Run();
}

}  // namespace maxsim::collection
