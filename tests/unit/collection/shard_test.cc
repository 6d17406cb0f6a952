// Tests whole shard files: what is built reads back, and damage is found or harmless.
#include "collection/shard.h"

#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <tuple>

#include "base/file.h"
#include "base/text.h"
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

// Reads everything that accessors reach, so that sanitizers see a read outside of the file.
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

// 9 columns x 13 tokens x 2 bytes is no multiple of 8, so that integers behind the tokens are misaligned.
INSTANTIATE_TEST_SUITE_P(All, RoundTripTest,
                         ::testing::Combine(::testing::Values(ScalarType::kF16, ScalarType::kBF16, ScalarType::kF32),
                                            ::testing::Values(IdType::kString, IdType::kInt64), ::testing::Bool(),
                                            ::testing::Values(8, 9),
                                            ::testing::Values(Access::kMapped, Access::kCopied)));

// Has a small shard file in memory, at an aligned address, to be damaged.
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

  // Returns the parser's view of `bytes`, which ends where they end, so that a sanitizer sees the first byte too far.
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
  // All bits of the structure are flipped; the header's padding would only repeat itself. Sanitized builds flip one bit
  // of a byte.
  const size_t text_end = good_.find_last_of('}', 4095) + 2;
  for (size_t at = 0; at < good_.size(); ++at) {
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

// The file has the size that the manifest says, but few tokens, which leaves far more beside them to be copied into
// memory than was planned for.
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

// Makes safetensors files that are well-formed and still no shards.
class ForeignFileTest : public ::testing::Test {
 protected:
  // Parses a valid file of two documents with changes to its tensors.
  absl::Status ParseWith(const std::function<void(std::vector<SafetensorsTensor>&, std::vector<std::string>&)>& change,
                         std::vector<std::pair<std::string, std::string>> metadata = {{"format", "maxsim-shard"},
                                                                                      {"format_version", "1"}}) {
    std::vector<SafetensorsTensor> tensors = {
        {"tokens", "F16", {3, 8}, 0, 0}, {"offsets", "I64", {3}, 0, 0}, {"ids", "I64", {2}, 0, 0}};
    std::vector<std::string> data = {std::string(48, '\0'), AsBytes<int64_t>({0, 1, 3}), AsBytes<int64_t>({7, 8})};
    change(tensors, data);
    std::string bytes = FormatSafetensorsHeader(metadata, tensors, 64);
    for (const std::string& part : data) bytes += part;
    buffer_ = std::make_unique<Aligned[]>(bytes.size() / sizeof(Aligned) + 1);
    std::memcpy(buffer_.get(), bytes.data(), bytes.size());
    return ParseShard({reinterpret_cast<const char*>(buffer_.get()), bytes.size()}).status();
  }
  static void AddPayloads(std::vector<SafetensorsTensor>& tensors, std::vector<std::string>& data,
                          const std::vector<int64_t>& offsets, const std::string& bytes) {
    tensors.push_back({"payload_offsets", "I64", {static_cast<int64_t>(offsets.size())}, 0, 0});
    data.push_back(AsBytes(offsets));
    tensors.push_back({"payload_bytes", "U8", {static_cast<int64_t>(bytes.size())}, 0, 0});
    data.push_back(bytes);
  }
  struct alignas(64) Aligned {
    char bytes[64];
  };
  std::unique_ptr<Aligned[]> buffer_;
};

TEST_F(ForeignFileTest, AreRefusedWithAReason) {
  using Tensors = std::vector<SafetensorsTensor>;
  using Data = std::vector<std::string>;
  ASSERT_TRUE(ParseWith([](Tensors&, Data&) {}).ok());
  const std::pair<const char*, std::function<void(Tensors&, Data&)>> cases[] = {
      {"\"tokens\" is missing", [](Tensors& t, Data&) { t[0].name = "token"; }},
      {"tokens: dtype \"F8_E4M3\" is not supported by this version (F16, BF16, F32 and I8 are)",
       [](Tensors& t, Data&) {
         t[0] = {"tokens", "F8_E4M3", {6, 8}, 0, 0};
       }},
      {"scales: tokens of type f16 have none",
       [](Tensors& t, Data& d) {
         t.push_back({"scales", "F32", {2}, 0, 0});
         d.push_back(AsBytes<float>({1, 1}));
       }},
      {"tokens: dtype \"F64\"",
       [](Tensors& t, Data& d) {
         t[0].dtype = "F64";
         d[0].resize(192);
       }},
      {"tokens: 1 dimensions", [](Tensors& t, Data&) { t[0].shape = {24}; }},
      {"tokens: 4 columns",
       [](Tensors& t, Data&) {
         t[0].shape = {6, 4};
       }},
      {"tokens: 4097 columns",
       [](Tensors& t, Data& d) {
         t[0].shape = {3, 4097};
         d[0].resize(2 * 3 * 4097);
       }},
      {"not a multiple of 64",
       [](Tensors& t, Data& d) {
         t.insert(t.begin(), {"first", "U8", {2}, 0, 0});
         d.insert(d.begin(), "xx");
       }},
      {"\"offsets\" is missing", [](Tensors& t, Data&) { t[1].name = "offset"; }},
      {"offsets: dtype \"U64\"", [](Tensors& t, Data&) { t[1].dtype = "U64"; }},
      {"offsets: 2 dimensions",
       [](Tensors& t, Data&) {
         t[1].shape = {3, 1};
       }},
      {"offsets: 0 documents",
       [](Tensors& t, Data& d) {
         t[1].shape = {1};
         d[1].resize(8);
       }},
      {"offsets: -1 documents",
       [](Tensors& t, Data& d) {
         t[1].shape = {0};
         d[1].clear();
       }},
      {"offsets[0]: 1",
       [](Tensors&, Data& d) {
         d[1] = AsBytes<int64_t>({1, 2, 3});
       }},
      {"offsets[1]: 0 after entry 0",
       [](Tensors&, Data& d) {
         d[1] = AsBytes<int64_t>({0, 0, 3});
       }},
      {"offsets[2]: 2 is not in 3 .. 3",
       [](Tensors&, Data& d) {
         d[1] = AsBytes<int64_t>({0, 3, 2});
       }},
      {"offsets: ends at 2, expected 3",
       [](Tensors&, Data& d) {
         d[1] = AsBytes<int64_t>({0, 1, 2});
       }},
      {"ids: 3 entries, expected 2",
       [](Tensors& t, Data& d) {
         t[2].shape = {3};
         d[2].resize(24);
       }},
      {"ids: dtype \"F64\"", [](Tensors& t, Data&) { t[2].dtype = "F64"; }},
      {"\"id_bytes\" is missing", [](Tensors& t, Data&) { t[2].name = "identity"; }},
      {"exclude each other",
       [](Tensors& t, Data& d) {
         t.push_back({"id_bytes", "U8", {1}, 0, 0});
         d.push_back("x");
       }},
      {"\"payload_offsets\" is missing",
       [](Tensors& t, Data& d) {
         t.push_back({"payload_bytes", "U8", {1}, 0, 0});
         d.push_back("x");
       }},
      {"id_offsets[1]: 0 after entry 0, expected 1 .. 512",
       [](Tensors& t, Data& d) {
         t[2] = {"id_offsets", "I64", {3}, 0, 0};
         d[2] = AsBytes<int64_t>({0, 0, 2});
         t.push_back({"id_bytes", "U8", {2}, 0, 0});
         d.push_back("xy");
       }},
      {"id_offsets[1]: 513 after entry 0",
       [](Tensors& t, Data& d) {
         t[2] = {"id_offsets", "I64", {3}, 0, 0};
         d[2] = AsBytes<int64_t>({0, 513, 514});
         t.push_back({"id_bytes", "U8", {514}, 0, 0});
         d.emplace_back(514, 'x');
       }},
      {"the id of document 1 is not UTF-8",
       [](Tensors& t, Data& d) {
         t[2] = {"id_offsets", "I64", {3}, 0, 0};
         d[2] = AsBytes<int64_t>({0, 1, 2});
         t.push_back({"id_bytes", "U8", {2}, 0, 0});
         d.push_back("x\xc3");
       }},
      {"the payload of document 1 is not UTF-8",
       [](Tensors& t, Data& d) {
         AddPayloads(t, d, {0, 0, 1}, "\xff");
       }},
      // The payloads are UTF-8 as a whole, but cut inside of a character.
      {"the payload of document 0 is not UTF-8",
       [](Tensors& t, Data& d) {
         AddPayloads(t, d, {0, 1, 2}, "\xc3\xa9");
       }},
  };
  for (const auto& [message, change] : cases) {
    SCOPED_TRACE(message);
    const absl::Status status = ParseWith(change);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  const auto unchanged = [](Tensors&, Data&) {};
  EXPECT_THAT(std::string(ParseWith(unchanged, {}).message()), HasSubstr("__metadata__.format"));
  EXPECT_THAT(std::string(ParseWith(unchanged, {{"format", "maxsim-shard"}, {"format_version", "2"}}).message()),
              HasSubstr("this version reads \"1\""));
}

TEST_F(ForeignFileTest, OfI8AreRefusedWithAReason) {
  using Metadata = std::vector<std::pair<std::string, std::string>>;
  const Metadata rotated = {
      {"format", "maxsim-shard"}, {"format_version", "1"}, {"rotation", "hadamard"}, {"rotation_seed", "17"}};
  const auto parse = [&](const std::vector<float>& scales, const Metadata& metadata, const char* dtype = "F32") {
    const auto change = [&](std::vector<SafetensorsTensor>& t, std::vector<std::string>& d) {
      t[0].dtype = "I8";
      d[0].resize(24);
      t.push_back({"scales", dtype, {static_cast<int64_t>(scales.size())}, 0, 0});
      d.push_back(AsBytes(scales));
    };
    return std::string(ParseWith(change, metadata).message());
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(parse({0, kMaxScale}, rotated), "");
  EXPECT_THAT(parse({1, std::nextafter(kMaxScale, kInfinity)}, rotated),
              HasSubstr("scales[1]: 7.87402e+09 is not in 0 .. "));
  EXPECT_THAT(parse({1, kInfinity}, rotated), HasSubstr("scales[1]: inf is not in 0 .. "));
  EXPECT_THAT(parse({std::nanf(""), 1}, rotated), HasSubstr("scales[0]: nan"));
  EXPECT_THAT(parse({1, -1}, rotated), HasSubstr("scales[1]: -1"));
  EXPECT_THAT(parse({1}, rotated), HasSubstr("scales: 1 entries, expected 2"));
  EXPECT_THAT(parse({1, 1, 1}, rotated), HasSubstr("scales: 3 entries, expected 2"));
  EXPECT_THAT(parse({1, 1}, rotated, "I32"), HasSubstr("scales: dtype \"I32\", expected F32"));
  EXPECT_THAT(parse({1, 1}, {rotated.begin(), rotated.begin() + 2}), HasSubstr("__metadata__.rotation: \"\""));
  for (const char* seed : {"", "-1", "+1", "01", " 1", "1.0", "9007199254740992", "99999999999999999999"}) {
    Metadata metadata = rotated;
    metadata[3].second = seed;
    EXPECT_THAT(parse({1, 1}, metadata), HasSubstr("__metadata__.rotation_seed: ")) << seed;
  }
  Metadata other = rotated;
  other[2].second = "givens";
  EXPECT_THAT(parse({1, 1}, other), HasSubstr("__metadata__.rotation: \"givens\", expected \"hadamard\""));
  const auto without_scales = [](std::vector<SafetensorsTensor>& t, std::vector<std::string>& d) {
    t[0].dtype = "I8";
    d[0].resize(24);
  };
  EXPECT_THAT(std::string(ParseWith(without_scales, rotated).message()), HasSubstr("tensor \"scales\" is missing"));
  EXPECT_THAT(std::string(ParseWith([](auto&, auto&) {}, rotated).message()),
              HasSubstr("__metadata__.rotation: tokens of type f16 have none"));
}

}  // namespace
}  // namespace maxsim::collection
