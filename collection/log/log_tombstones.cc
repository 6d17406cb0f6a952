#include "collection/log/log_tombstones.h"

#include <rocksdb/write_batch.h>

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr char kTombstoneFormat = 2;
constexpr size_t kNumberBytes = 8;

std::string KeyOf(int64_t generation, size_t shard) {
  return BigEndian(static_cast<uint64_t>(generation)) + BigEndian(shard);
}

// Returns a key that sorts after the keys of all generations.
std::string EndOfKeys() { return std::string(2 * kNumberBytes + 1, '\xff'); }

// Returns the value for a shard: the format, the generation's log_sequence, the size of the shard's checksum, the
// checksum, and the ordinals.
std::string FormatValue(const Manifest& manifest, const ShardEntry& entry, const std::vector<uint32_t>& ordinals) {
  std::string value(1, kTombstoneFormat);
  value += BigEndian(manifest.log_sequence.value_or(0));
  value.push_back(static_cast<char>(entry.checksum.size()));
  value += entry.checksum;
  value.append(reinterpret_cast<const char*>(ordinals.data()), ordinals.size() * sizeof(uint32_t));
  return value;
}

absl::Status CheckOrdinals(const ShardEntry& entry, const std::vector<uint32_t>& ordinals) {
  for (size_t idx = 0; idx < ordinals.size(); ++idx) {
    if (ordinals[idx] >= entry.num_documents) {
      return Invalid(entry.file, ": a tombstone of document ", ordinals[idx], ", but the shard has only ",
                     entry.num_documents);
    }
    if (idx > 0 && ordinals[idx] <= ordinals[idx - 1]) {
      return Invalid(entry.file, ": the tombstone of document ", ordinals[idx], " follows that of ", ordinals[idx - 1]);
    }
  }
  return absl::OkStatus();
}

// Reads `ordinals` from a value. Leaves them empty if the value has another checksum or log_sequence: then it belongs
// to another build with the same generation number.
absl::Status ParseValue(const Manifest& manifest, const ShardEntry& entry, std::string_view value,
                        std::vector<uint32_t>* ordinals) {
  constexpr size_t kHeadBytes = 1 + kNumberBytes + 1;
  if (value.empty() || value[0] != kTombstoneFormat) {
    const int format = value.empty() ? 0 : static_cast<unsigned char>(value[0]);
    return Invalid(entry.file, ": tombstones of format ", format, "; this version reads ", int{kTombstoneFormat});
  }
  if (value.size() < kHeadBytes) return Invalid(entry.file, ": tombstones of ", value.size(), " bytes");
  if (FromBigEndian(value.substr(1)) != manifest.log_sequence.value_or(0)) return absl::OkStatus();
  const auto size = static_cast<size_t>(static_cast<unsigned char>(value[kHeadBytes - 1]));
  value.remove_prefix(kHeadBytes);
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
    return Invalid("tombstones of ", tombstones.size(), " shards, but the generation has ", manifest.shards.size());
  }
  rocksdb::ColumnFamilyHandle* const family = database.family(LogFamily::kTombstones);
  rocksdb::Status status = batch->DeleteRange(family, KeyOf(manifest.generation, 0), EndOfKeys());
  for (size_t shard = 0; shard < tombstones.size() && status.ok(); ++shard) {
    if (tombstones[shard].empty()) continue;
    const ShardEntry& entry = manifest.shards[shard];
    if (absl::Status checked = CheckOrdinals(entry, tombstones[shard]); !checked.ok()) return checked;
    status = batch->Put(family, KeyOf(manifest.generation, shard), FormatValue(manifest, entry, tombstones[shard]));
  }
  return FromRocksDb(status, "tombstones: ");
}

absl::Status AddDropOfOthers(const LogDatabase& database, int64_t generation, rocksdb::WriteBatch* batch) {
  rocksdb::ColumnFamilyHandle* const family = database.family(LogFamily::kTombstones);
  const std::unique_ptr<rocksdb::Iterator> iterator(database.db().NewIterator(rocksdb::ReadOptions(), family));
  const std::string begin = KeyOf(generation, 0);
  const std::string end = KeyOf(generation + 1, 0);
  rocksdb::Status status;
  iterator->SeekToFirst();
  if (iterator->Valid() && AsView(iterator->key()) < begin) status = batch->DeleteRange(family, KeyOf(0, 0), begin);
  iterator->Seek(end);
  if (status.ok() && iterator->Valid()) status = batch->DeleteRange(family, end, EndOfKeys());
  if (status.ok()) status = iterator->status();
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
    const absl::Status status =
        ParseValue(manifest, manifest.shards[shard], AsView(iterator->value()), &tombstones[shard]);
    if (!status.ok()) return absl::DataLossError(Cat("tombstones: ", ForStrCat(std::string(status.message()))));
  }
  if (absl::Status status = FromRocksDb(iterator->status(), "tombstones: "); !status.ok()) return status;
  return tombstones;
}

}  // namespace maxsim::collection
