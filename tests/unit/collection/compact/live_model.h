// A live collection together with a plain list of the documents that it must hold.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "collection/compact/compact.h"
#include "collection/compact/create.h"
#include "collection/log/collection_log.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/scalar_type.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {

struct ModelDocument {
  std::string id;  // the decimal text of int64 ids
  std::string rows;
  float scale = 0;
  std::string payload;

  bool operator==(const ModelDocument&) const = default;
};

// Prints a document in the message of a failed comparison. Puts the id first, because it usually tells which document
// differs.
inline void PrintTo(const ModelDocument& document, std::ostream* out) {
  *out << document.id << " (" << document.rows.size() << " bytes that begin with "
       << (document.rows.empty() ? 0 : int{document.rows[0]}) << ", scale " << document.scale << ", "
       << document.payload << ")";
}

struct ModelWrite {
  bool deletes = false;
  ModelDocument document;
};

class LiveModel {
 public:
  LiveModel(std::string folder, CreateOptions options, uint32_t seed)
      : folder_(std::move(folder)), options_(std::move(options)), random_(seed) {}

  void Create() {
    const auto manifest = CreateLiveCollection(folder_, options_);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    Open();
  }
  void Close() { log_.reset(); }
  void Open() {
    Close();
    const auto manifest = ReadManifest(folder_);
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    auto log = CollectionLog::Open(folder_, LogFormat::Of(*manifest), CollectionLog::Mode::kMustExist);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }

  uint32_t Random(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  CollectionLog& log() { return *log_; }
  const std::string& folder() const { return folder_; }
  void set_max_tokens(uint32_t max_tokens) { max_tokens_ = max_tokens; }

  // Writes random documents. If `num_ids` is small, many documents are replaced, deleted and written again.
  void Write(uint32_t count, uint32_t num_ids, bool with_payloads) {
    for (uint32_t idx = 0; idx < count; ++idx) {
      ModelWrite write{.deletes = Random(4) == 0, .document = RandomDocument(with_payloads)};
      write.document.id = Cat(Random(num_ids));
      Append(std::move(write));
    }
  }
  void Append(ModelWrite write) {
    const ModelDocument& document = write.document;
    LogRecord record;
    record.sequence = log_->last_sequence() + 1;
    record.string_id = document.id;
    record.int_id = options_.id_type == IdType::kInt64 ? std::stoll(document.id) : 0;
    if (write.deletes) {
      record.kind = LogRecord::Kind::kDelete;
    } else {
      record.num_tokens = static_cast<int32_t>(document.rows.size() / RowBytes());
      record.scale = document.scale;
      record.rows = document.rows;
      record.payload = document.payload;
    }
    ASSERT_TRUE(log_->Append({record}).ok());
    writes_.push_back(std::move(write));
  }

  // Returns the documents that the collection must hold after the writes up to `through`, in the collection's order.
  std::vector<ModelDocument> Expected(uint64_t through) const {
    std::map<std::string, uint64_t> last;
    for (uint64_t sequence = 1; sequence <= through; ++sequence) last[writes_[sequence - 1].document.id] = sequence;
    std::vector<ModelDocument> documents;
    for (uint64_t sequence = 1; sequence <= through; ++sequence) {
      const ModelWrite& write = writes_[sequence - 1];
      if (!write.deletes && last[write.document.id] == sequence) documents.push_back(write.document);
    }
    return documents;
  }

  // Returns the documents in the folder's shards that have no tombstone, in order.
  std::vector<ModelDocument> Published() const {
    std::vector<ModelDocument> documents;
    const auto manifest = ReadManifest(folder_);
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    const auto tombstones = log_->TombstonesOf(*manifest);
    EXPECT_TRUE(tombstones.ok()) << tombstones.status();
    for (size_t idx = 0; idx < manifest->shards.size(); ++idx) {
      const auto shard = Shard::Open(folder_, *manifest, manifest->shards[idx], Access::kMapped, true);
      EXPECT_TRUE(shard.ok()) << shard.status();
      if (!shard.ok()) continue;
      for (int64_t ordinal = 0; ordinal < (*shard)->documents().num_documents; ++ordinal) {
        const auto& dead = (*tombstones)[idx];
        if (std::binary_search(dead.begin(), dead.end(), static_cast<uint32_t>(ordinal))) continue;
        documents.push_back(Take(**shard, ordinal));
      }
    }
    return documents;
  }

 private:
  size_t RowBytes() const { return static_cast<size_t>(options_.dim) * SizeOf(options_.storage); }

  ModelDocument RandomDocument(bool with_payloads) {
    ModelDocument document;
    const size_t num_values = (1 + Random(max_tokens_)) * static_cast<size_t>(options_.dim);
    for (size_t idx = 0; idx < num_values; ++idx) {
      if (options_.storage == ScalarType::kI8) {
        document.rows.push_back(static_cast<char>(static_cast<int>(Random(255)) - 127));
        continue;
      }
      // Uses all bit patterns of F16 except infinity and NaN, so that a conversion between types would change some
      // values.
      uint16_t bits = static_cast<uint16_t>(random_());
      if ((bits & 0x7c00) == 0x7c00) bits ^= 0x0400;
      document.rows.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
    }
    if (options_.storage == ScalarType::kI8) document.scale = static_cast<float>(Random(1000)) / 512;
    if (with_payloads && Random(3) != 0) document.payload = Cat("{\"n\":", Random(1'000'000), "}");
    return document;
  }

  static ModelDocument Take(const Shard& shard, int64_t ordinal) {
    ModelDocument document;
    document.id =
        shard.id_type() == IdType::kString ? std::string(shard.string_id(ordinal)) : Cat(shard.int_id(ordinal));
    const auto rows = shard.ReadDocument(ordinal);
    EXPECT_TRUE(rows.ok()) << rows.status();
    document.rows.assign(reinterpret_cast<const char*>(rows->data()), rows->size());
    if (shard.documents().scales != nullptr) document.scale = shard.documents().scales[ordinal];
    document.payload = shard.payload(ordinal);
    return document;
  }

  const std::string folder_;
  const CreateOptions options_;
  std::mt19937 random_;
  uint32_t max_tokens_ = 5;
  std::unique_ptr<CollectionLog> log_;
  std::vector<ModelWrite> writes_;  // write n has sequence n + 1
};

}  // namespace maxsim::collection
