// Tests whole shard files: a built shard is read back unchanged, and damage is found or has no effect.
#include "collection/shard.h"

#include <unistd.h>

#include <cstring>
#include <string>
#include <tuple>

#include "base/file.h"
#include "collection/formats/safetensors.h"
#include "collection/inspection/inspect.h"
#include "collection/shard_contents.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

SmallCollection WithPayloads(SmallCollection collection) {
  collection.payloads = {R"({"t":"x"})", "", R"({"long":")" + std::string(300, 'y') + "\"}", "{\"z\":[1,2]}"};
  return collection;
}

float ValueOf(const DocumentsView& documents, int64_t element) {
  float value;
  ConvertElements(documents.type,
                  static_cast<const char*>(documents.tokens) + element * static_cast<int64_t>(SizeOf(documents.type)),
                  ScalarType::kF32, &value, 1);
  return value;
}

// Reads all bytes that the accessors return, so that a sanitizer notices reads outside of the file.
uint64_t Touch(const ShardContents& shard) {
  uint64_t sum = 0;
  const DocumentsView documents = shard.documents();
  const auto* bytes = static_cast<const unsigned char*>(documents.tokens);
  const int64_t count = documents.num_tokens() * documents.dim * static_cast<int64_t>(SizeOf(documents.type));
  for (int64_t idx = 0; idx < count; ++idx) sum += bytes[idx];
  for (int64_t idx = 0; idx < documents.num_documents; ++idx) {
    if (shard.id_type == IdType::kInt64) {
      sum += static_cast<uint64_t>(shard.ids[idx]);
    } else {
      EXPECT_LE(shard.string_id(idx).size(), kMaxIdBytes);
      for (const char c : shard.string_id(idx)) sum += static_cast<unsigned char>(c);
    }
    for (const char c : shard.payload(idx)) sum += static_cast<unsigned char>(c);
    EXPECT_LT(documents.offsets[idx], documents.offsets[idx + 1]);
  }
  return sum;
}

class RoundTripTest : public ::testing::TestWithParam<std::tuple<ScalarType, IdType, bool, int32_t, Access>> {};

TEST_P(RoundTripTest, EverythingReadsBackAsItWasGiven) {
  const auto [storage, id_type, has_payloads, dim, access] = GetParam();
  TemporaryFolder folder;
  SmallCollection collection;
  if (has_payloads) collection = WithPayloads(collection);
  collection.id_type = id_type;
  collection.dim = dim;
  const auto manifest = BuildSmall(collection, {.folder = folder.path(), .name = "small", .storage = storage});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto read = ReadManifest(folder.path());
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->shards.size(), 1);
  EXPECT_EQ(read->shards[0].checksum, manifest->shards[0].checksum);

  const auto shard = Shard::Open(folder.path(), *read, read->shards[0], access, /*check_checksum=*/true);
  ASSERT_TRUE(shard.ok()) << shard.status();
  const DocumentsView& documents = (*shard)->documents();
  EXPECT_EQ(documents.type, storage);
  EXPECT_EQ(documents.dim, dim);
  ASSERT_EQ(documents.num_documents, 4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(documents.tokens) % kTokenAlignment, 0);
  for (int64_t document = 0, offset = 0; document < 4; ++document) {
    EXPECT_EQ(documents.offsets[document], offset);
    offset += collection.lengths[static_cast<size_t>(document)];
  }
  ASSERT_EQ(documents.num_tokens(), collection.num_tokens());
  for (int64_t token = 0; token < documents.num_tokens(); ++token) {
    for (int32_t column = 0; column < dim; ++column) {
      ASSERT_EQ(ValueOf(documents, token * dim + column), SmallCollection::Value(token, column));
    }
  }
  ASSERT_EQ((*shard)->id_type(), id_type);
  for (size_t document = 0; document < 4; ++document) {
    const auto ordinal = static_cast<int64_t>(document);
    if (id_type == IdType::kString) {
      EXPECT_EQ((*shard)->string_id(ordinal), collection.ids[document]);
    } else {
      EXPECT_EQ((*shard)->int_id(ordinal), collection.int_ids[document]);
    }
    EXPECT_EQ((*shard)->payload(ordinal), has_payloads ? collection.payloads[document] : "");
  }
  EXPECT_EQ((*shard)->num_bytes(), read->shards[0].num_bytes);
}

// 9 columns x 13 tokens x 2 bytes is no multiple of 8, so the integers after the tokens are misaligned.
INSTANTIATE_TEST_SUITE_P(All, RoundTripTest,
                         ::testing::Combine(::testing::Values(ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32),
                                            ::testing::Values(IdType::kString, IdType::kInt64), ::testing::Bool(),
                                            ::testing::Values(8, 9),
                                            ::testing::Values(Access::kMapped, Access::kCopied)));

// Holds a small shard file in memory, at an aligned address, for tests to damage.
class DamageTest : public ::testing::TestWithParam<IdType> {
 protected:
  void SetUp() override {
    SmallCollection collection = WithPayloads({});
    collection.id_type = GetParam();
    const auto built = BuildSmall(collection, {.folder = folder_.path(), .name = "small"});
    ASSERT_TRUE(built.ok()) << built.status();
    manifest_ = *built;
    path_ = folder_.Path(manifest_.shards[0].file);
    good_ = ReadBytes(path_);
    buffer_.reset(static_cast<char*>(std::aligned_alloc(4096, 65536)));
  }

  // Parses a copy of `bytes` at an aligned address. Fewer than 128 bytes of memory follow it, so that a sanitizer
  // notices reads beyond them.
  absl::StatusOr<ShardContents> Parse(const std::string& bytes) {
    buffer_.reset(static_cast<char*>(std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64 + 64)));
    std::memcpy(buffer_.get(), bytes.data(), bytes.size());
    return ParseShard({buffer_.get(), bytes.size()});
  }
  absl::StatusOr<std::shared_ptr<const Shard>> Open(bool check_checksum) {
    return Shard::Open(folder_.path(), manifest_, manifest_.shards[0], Access::kMapped, check_checksum);
  }

  struct Free {
    void operator()(char* data) const { std::free(data); }
  };
  TemporaryFolder folder_;
  Manifest manifest_;
  std::string path_;
  std::string good_;
  std::unique_ptr<char, Free> buffer_;
};

TEST_P(DamageTest, EveryFlippedByteIsFoundByTheChecksumAndHarmlessWithoutIt) {
  ASSERT_TRUE(Open(true).ok());
  int refused = 0;
  // Flips each bit of the file, one at a time. In the header's padding, where all bytes are equal, flips only one bit
  // per byte. Sanitized builds flip one bit of every byte of the header's text, and of every fifth byte after it.
  const size_t text_end = good_.find_last_of('}', 4095) + 2;
  for (size_t at = 0; at < good_.size(); at += test::kSanitized && at > text_end ? 5 : 1) {
    const bool padding = at > text_end && at < 4095;
    for (int bit = 0; bit < 8; bit += padding || test::kSanitized ? 8 : 1) {
      std::string bad = good_;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      const absl::StatusOr<ShardContents> contents = Parse(bad);
      if (contents.ok()) {
        Touch(*contents);
      } else {
        ++refused;
        EXPECT_FALSE(contents.status().message().empty());
      }
      Checksum checksum;
      checksum.Update(bad.data(), bad.size());
      ASSERT_NE(checksum.Format(), manifest_.shards[0].checksum) << "byte " << at;
    }
  }
  EXPECT_GT(refused, test::kSanitized ? 100 : 1000);
}

TEST_P(DamageTest, AFlippedByteInTheFileIsDataLossThatNamesIt) {
  for (const size_t at : {size_t{0}, size_t{9}, size_t{4096}, good_.size() - 1}) {
    std::string bad = good_;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    WriteBytes(path_, bad);
    const absl::Status status = Open(true).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(status.message()), HasSubstr("checksum"));
  }
}

TEST_P(DamageTest, EveryTruncationIsRefused) {
  for (size_t length = 0; length < good_.size(); ++length) {
    const absl::StatusOr<ShardContents> contents = Parse(good_.substr(0, length));
    ASSERT_FALSE(contents.ok()) << length;
  }
  for (const size_t length : {size_t{0}, size_t{7}, size_t{8}, size_t{4096}, good_.size() - 1}) {
    WriteBytes(path_, std::string_view(good_).substr(0, length));
    for (const bool check_checksum : {false, true}) {
      const absl::Status status = Open(check_checksum).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(status.message()), HasSubstr("the manifest says"));
    }
  }
  EXPECT_FALSE(Parse(good_ + "x").ok());
}

TEST_P(DamageTest, OffsetsThatLieAreRefused) {
  const auto header = ParseSafetensorsHeader(good_, static_cast<int64_t>(good_.size()));
  ASSERT_TRUE(header.ok());
  for (const char* name : {"offsets", "id_offsets", "payload_offsets"}) {
    const SafetensorsTensor* tensor = header->Find(name);
    if (tensor == nullptr) continue;
    for (int64_t entry = 0; entry < 5; ++entry) {
      int64_t old;
      std::memcpy(&old, good_.data() + tensor->begin + entry * 8, 8);
      for (const int64_t value : {int64_t{-1}, INT64_MIN, INT64_MAX, int64_t{1} << 32, old + 1000, old - 1000}) {
        std::string bad = good_;
        std::memcpy(bad.data() + tensor->begin + entry * 8, &value, 8);
        const absl::StatusOr<ShardContents> contents = Parse(bad);
        ASSERT_FALSE(contents.ok()) << name << "[" << entry << "] = " << value;
        EXPECT_THAT(std::string(contents.status().message()), HasSubstr(name));
      }
    }
  }
}

TEST_P(DamageTest, AManifestThatSaysOtherwiseIsDataLoss) {
  const std::pair<const char*, std::function<void(Manifest&)>> changes[] = {
      {"storage: f16, but the manifest says bf16", [](Manifest& m) { m.storage = ScalarType::kBF16; }},
      {"dim: 8, but the manifest says 16", [](Manifest& m) { m.dim = 16; }},
      {"id type:", [](Manifest& m) { m.id_type = m.id_type == IdType::kInt64 ? IdType::kString : IdType::kInt64; }},
      {"payloads: present, but the manifest says absent", [](Manifest& m) { m.has_payloads = false; }},
      {"documents: 4, but the manifest says 5", [](Manifest& m) { m.shards[0].num_documents = 5; }},
      {"tokens: 13, but the manifest says 14", [](Manifest& m) { m.shards[0].num_tokens = 14; }},
      {"bytes, but the manifest says 1", [](Manifest& m) { m.shards[0].num_bytes = 1; }},
  };
  for (const auto& [message, change] : changes) {
    Manifest manifest = manifest_;
    change(manifest);
    const absl::Status status =
        Shard::Open(folder_.path(), manifest, manifest.shards[0], Access::kCopied, false).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  ShardEntry missing = manifest_.shards[0];
  missing.file = "none.safetensors";
  EXPECT_EQ(Shard::Open(folder_.path(), manifest_, missing, Access::kMapped, false).status().code(),
            absl::StatusCode::kNotFound);
}

INSTANTIATE_TEST_SUITE_P(Ids, DamageTest, ::testing::Values(IdType::kString, IdType::kInt64));

TEST(InspectTest, TextOfAManifestDoesNotReachTheTerminalAsControls) {
  TemporaryFolder folder;
  absl::StatusOr<Manifest> manifest = BuildSmall({}, {.folder = folder.path(), .name = "small"});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  manifest->created_by =
      "\x1b]0;title\x07 \xc2\x9b"
      "31m";
  manifest->created_at = "now\r";
  ASSERT_TRUE(PublishManifest(*manifest, folder.path()).ok());
  const absl::StatusOr<CollectionSummary> summary = Inspect(folder.path());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_THAT(FormatTable(*summary), HasSubstr("now? by ?]0;title? ?31m\n"));
}

// The file has the size that the manifest states. But nearly all of it is payload bytes, which loading copies into
// memory: far more than was planned for the shard.
TEST(ShardTest, AShardThatWantsMoreMemoryThanItsEntryIsRefusedBeforeItIsRead) {
  TemporaryFolder folder;
  absl::StatusOr<Manifest> manifest = BuildSmall({}, {.folder = folder.path(), .name = "small"});
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  constexpr int64_t kBeside = int64_t{1} << 40;
  std::vector<SafetensorsTensor> tensors = {{"tokens", "F16", {1, 8}, 0, 0}, {"payload_bytes", "U8", {kBeside}, 0, 0}};
  const std::string header =
      FormatSafetensorsHeader({{"format", "maxsim-shard"}, {"format_version", "1"}}, tensors, 4096);
  ShardEntry entry = manifest->shards[0];
  entry.num_bytes = tensors.back().end;
  entry.num_tokens = entry.num_bytes / 16;
  entry.num_documents = entry.num_tokens;
  ASSERT_EQ(BytesBesideTokens(*manifest, entry), 0);
  WriteBytes(folder.Path(entry.file), header);
  ASSERT_EQ(::truncate(folder.Path(entry.file).c_str(), entry.num_bytes), 0);
  const absl::Status status = Shard::Open(folder.path(), *manifest, entry, Access::kMapped, false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokens: 16 bytes, but the manifest says"));
}

}  // namespace
}  // namespace maxsim::collection
