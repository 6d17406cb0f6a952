// A live collection in a folder that applies the messages of a stream as a server does, without serving anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "collection/compact/compact.h"
#include "collection/compact/create.h"
#include "collection/log/collection_log.h"
#include "collection/manifest.h"
#include "collection/partition/snapshot_folder.h"
#include "collection/shard.h"
#include "collection/slots.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/scalar_type.h"
#include "tests/unit/collection/partition/partition_fixture.h"

namespace maxsim::collection {

// A message of the stream.
struct StreamedWrite {
  bool deletes = false;
  std::string id;
  uint64_t version = 0;  // 0: none
  std::string rows = {};
  float scale = 0;  // i8
  std::string payload = {};
};

inline LogStream TestStream() { return {"maxsim-docs", 1'700'000'000'000'000'000}; }

// Random writes of documents "doc-0" .. "doc-(num_ids - 1)" of 1 to 3 tokens, dimension 8. Ids with an even number are
// always written with a version, often an old one, and the others without. A third of the writes are deletes.
inline std::vector<StreamedWrite> RandomWrites(size_t count, uint32_t num_ids, ScalarType storage, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<StreamedWrite> writes;
  for (size_t idx = 0; idx < count; ++idx) {
    StreamedWrite& write = writes.emplace_back();
    const auto number = static_cast<uint32_t>(random() % num_ids);
    write.id = Cat("doc-", number);
    if (number % 2 == 0) write.version = 1 + idx / 2 + random() % 60;
    write.deletes = random() % 3 == 0;
    if (write.deletes) continue;
    const size_t num_values = (1 + random() % 3) * 8;
    for (size_t value = 0; value < num_values; ++value) {
      if (storage == ScalarType::kI8) {
        write.rows.push_back(static_cast<char>(static_cast<int>(random() % 255) - 127));
        continue;
      }
      const auto bits = static_cast<uint16_t>(0x3800 + random() % 0x0800 + (random() % 2 == 0 ? 0x8000 : 0));
      write.rows.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
    }
    if (storage == ScalarType::kI8) write.scale = static_cast<float>(1 + random() % 1000) / 512;
    write.payload = Cat("{\"n\":", idx, "}");
  }
  return writes;
}

class FollowingServer {
 public:
  // Opens the collection in `folder`, which must have a log.
  explicit FollowingServer(std::string folder) : folder_(std::move(folder)) { Open(); }

  // Makes an empty collection of `slots` in `folder`. It follows `stream` from the beginning or, without one, numbers
  // its own writes.
  static FollowingServer Create(const std::string& folder, const SlotRange& slots, CreateOptions options,
                                const std::optional<LogStream>& stream = TestStream()) {
    if (!slots.is_whole()) options.partition = slots;
    const auto made = CreateLiveCollection(folder, options);
    EXPECT_TRUE(made.ok()) << made.status();
    FollowingServer server(folder);
    if (stream.has_value()) {
      EXPECT_TRUE(server.log().Follow(*stream).ok());
    }
    return server;
  }

  void Close() { log_.reset(); }
  CollectionLog& log() { return *log_; }
  const std::string& folder() const { return folder_; }

  // Applies the messages after the log's position, up to the message with sequence `through`. The first message of
  // `messages` has sequence 1. Skips the same messages as the server's WriteGroup does.
  void Apply(const std::vector<StreamedWrite>& messages, uint64_t through) {
    const SlotRange slots = ReadManifest(folder_)->slots();
    while (log_->last_sequence() < through) {
      const StreamedWrite& message = messages[log_->last_sequence()];
      LogRecord record;
      record.sequence = log_->last_sequence() + 1;
      record.kind = LogRecord::Kind::kSkipped;
      const bool is_held = held_.count(message.id) > 0;
      if (!slots.contains(SlotOf(message.id))) {
        record.skip_reason = SkipReason::kOtherPartition;
      } else if (message.version != 0 && VersionOf(message.id) >= message.version) {
        record.skip_reason = SkipReason::kStale;
      } else if (message.deletes && !is_held && message.version == 0) {
        record.skip_reason = SkipReason::kNotFound;
      } else {
        record.kind = message.deletes ? LogRecord::Kind::kDelete : LogRecord::Kind::kUpsert;
        record.string_id = message.id;
        record.version = message.version;
        if (message.deletes) {
          held_.erase(message.id);
        } else {
          record.num_tokens = static_cast<int32_t>(message.rows.size() / row_bytes_);
          record.scale = message.scale;
          record.rows = message.rows;
          record.payload = message.payload;
          held_.insert(message.id);
        }
      }
      const absl::Status status = log_->Append({record});
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  // With 0, every shard with a replaced document is written again.
  Manifest CompactAll(double max_tombstone_share = 0) {
    const auto result = Compact(folder_, *log_, log_->last_sequence(), {.max_tombstone_share = max_tombstone_share});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->manifest : Manifest();
  }

  // Copies the collection as it is now. Returns the copy's folder.
  std::string SnapshotTo(const std::string& to) {
    const auto sequence = MakeSnapshotFolder(folder_, *ReadManifest(folder_), *log_, to, nullptr);
    EXPECT_TRUE(sequence.ok()) << sequence.status();
    return to;
  }

  uint64_t VersionOf(const std::string& id) { return log_->VersionOf(std::string_view(id)).value_or(UINT64_MAX); }

  // Returns the versions of all ids that have one and whose slots are in `slots`.
  std::map<std::string, uint64_t> Versions(const SlotRange& slots = SlotRange()) {
    std::map<std::string, uint64_t> versions;
    const absl::Status status = log_->ReadVersions([&](const IdVersion& id) {
      if (slots.contains(SlotOf(id.string_id))) versions[std::string(id.string_id)] = id.version.version;
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return versions;
  }

  // Returns the ids of the documents.
  const std::set<std::string>& held() const { return held_; }

 private:
  void Open() {
    const auto manifest = ReadManifest(folder_);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    auto log = CollectionLog::Open(folder_, LogFormat::Of(*manifest), CollectionLog::Mode::kMustExist);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
    row_bytes_ = static_cast<size_t>(manifest->dim) * SizeOf(manifest->storage);
    const auto tombstones = log_->TombstonesOf(*manifest);
    ASSERT_TRUE(tombstones.ok()) << tombstones.status();
    for (size_t idx = 0; idx < manifest->shards.size(); ++idx) {
      const auto shard = Shard::Open(folder_, *manifest, manifest->shards[idx], Access::kCopied, true);
      ASSERT_TRUE(shard.ok()) << shard.status();
      const std::vector<uint32_t>& dead = (*tombstones)[idx];
      for (int64_t document = 0; document < (*shard)->documents().num_documents; ++document) {
        if (std::binary_search(dead.begin(), dead.end(), static_cast<uint32_t>(document))) continue;
        held_.insert(std::string((*shard)->string_id(document)));
      }
    }
    const absl::Status read =
        log_->Read(manifest->log_sequence.value_or(0), log_->last_sequence(), [&](const LogRecord& record) {
          if (record.kind == LogRecord::Kind::kUpsert) held_.insert(std::string(record.string_id));
          if (record.kind == LogRecord::Kind::kDelete) held_.erase(std::string(record.string_id));
          return absl::OkStatus();
        });
    ASSERT_TRUE(read.ok()) << read;
  }

  std::string folder_;
  std::unique_ptr<CollectionLog> log_;
  size_t row_bytes_ = 0;
  std::set<std::string> held_;
};

}  // namespace maxsim::collection
