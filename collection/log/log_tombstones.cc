#include "collection/log/log_tombstones.h"

#include <rocksdb/write_batch.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr char kTombstoneFormat = 1;
constexpr size_t kNumberBytes = 8;

std::string KeyOf(int64_t generation, size_t shard) {
  return BigEndian(static_cast<uint64_t>(generation)) + BigEndian(shard);
}

// Format, size of the checksum, checksum, ordinals.
std::string FormatValue(const ShardEntry& entry, const std::vector<uint32_t>& ordinals) {
  std::string value(1, kTombstoneFormat);
  value.push_back(static_cast<char>(entry.checksum.size()));
  value += entry.checksum;
  value.append(reinterpret_cast<const char*>(ordinals.data()), ordinals.size() * sizeof(uint32_t));
  return value;
}

absl::Status CheckOrdinals(const ShardEntry& entry, const std::vector<uint32_t>& ordinals) {
  for (size_t idx = 0; idx < ordinals.size(); ++idx) {
    if (ordinals[idx] >= entry.num_documents) {
      return Invalid(entry.file, ": a tombstone of document ", ordinals[idx], ", and it has ", entry.num_documents);
    }
    if (idx > 0 && ordinals[idx] <= ordinals[idx - 1]) {
      return Invalid(entry.file, ": the tombstone of document ", ordinals[idx], " follows that of ", ordinals[idx - 1]);
    }
  }
  return absl::OkStatus();
}

// Fills `ordinals` from a value, unless it belongs to another shard.
absl::Status ParseValue(const ShardEntry& entry, std::string_view value, std::vector<uint32_t>* ordinals) {
  if (value.size() < 2 || value[0] != kTombstoneFormat) return Invalid(entry.file, ": tombstones of an unknown format");
  const auto size = static_cast<size_t>(static_cast<unsigned char>(value[1]));
  value.remove_prefix(2);
  if (value.size() < size || (value.size() - size) % sizeof(uint32_t) != 0) {
    return Invalid(entry.file, ": tombstones of ", value.size(), " bytes");
  }
  if (value.substr(0, size) != entry.checksum) return absl::OkStatus();
  value.remove_prefix(size);
  ordinals->resize(value.size() / sizeof(uint32_t));
  if (!value.empty()) std::memcpy(ordinals->data(), value.data(), value.size());
  return CheckOrdinals(entry, *ordinals);
}

}  // namespace

absl::Status AddTombstones(const LogDatabase& database, const Manifest& manifest, const Tombstones& tombstones,
                           rocksdb::WriteBatch* batch) {
  if (tombstones.size() != manifest.shards.size()) {
    return Invalid("tombstones of ", tombstones.size(), " shards, and the generation has ", manifest.shards.size());
  }
  rocksdb::ColumnFamilyHandle* const family = database.family(LogFamily::kTombstones);
  const std::string end(2 * kNumberBytes + 1, '\xff');
  rocksdb::Status status = batch->DeleteRange(family, KeyOf(manifest.generation, 0), end);
  for (size_t shard = 0; shard < tombstones.size() && status.ok(); ++shard) {
    if (tombstones[shard].empty()) continue;
    const ShardEntry& entry = manifest.shards[shard];
    if (absl::Status checked = CheckOrdinals(entry, tombstones[shard]); !checked.ok()) return checked;
    status = batch->Put(family, KeyOf(manifest.generation, shard), FormatValue(entry, tombstones[shard]));
  }
  return FromRocksDb(status, "tombstones: ");
}

absl::StatusOr<Tombstones> ReadTombstones(const LogDatabase& database, const Manifest& manifest) {
  Tombstones tombstones(manifest.shards.size());
  rocksdb::ReadOptions options;
  const std::string end = KeyOf(manifest.generation + 1, 0);
  const rocksdb::Slice bound(end);
  options.iterate_upper_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> iterator(
      database.db().NewIterator(options, database.family(LogFamily::kTombstones)));
  for (iterator->Seek(KeyOf(manifest.generation, 0)); iterator->Valid(); iterator->Next()) {
    const std::string_view key = AsView(iterator->key());
    if (key.size() != 2 * kNumberBytes) {
      return absl::DataLossError(Cat("tombstones: a key of ", key.size(), " bytes, expected ", 2 * kNumberBytes));
    }
    const uint64_t shard = FromBigEndian(key.substr(kNumberBytes));
    if (shard >= tombstones.size()) continue;  // of a generation with more shards that was never published
    const absl::Status status = ParseValue(manifest.shards[shard], AsView(iterator->value()), &tombstones[shard]);
    if (!status.ok()) return absl::DataLossError(Cat("tombstones: ", ForStrCat(std::string(status.message()))));
  }
  if (absl::Status status = FromRocksDb(iterator->status(), "tombstones: "); !status.ok()) return status;
  return tombstones;
}

}  // namespace maxsim::collection
