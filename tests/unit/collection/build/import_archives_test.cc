// Tests the import of .npz archives: undamaged ones, damaged ones, and archives that claim to hold more than they do.
#include "collection/build/import.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>

#include "base/file.h"
#include "base/text.h"
#include "collection/formats/zip.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/collection/zip_writer.h"
#include "tests/unit/collection/build/import_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

TEST_F(ImportTest, NpzStoredAndDeflatedWithAndWithout64BitFields) {
  const std::vector<std::pair<std::string, std::string>> members = {
      {"lengths.npy", NpyBytes("<i4", "(3,)", AsBytes<int32_t>({2, 1, 3}))},
      {"tokens.npy", NpyBytes("<f2", "(6, 8)", ValueBytes(ElementType::kF16))},
      {"ids.npy", NpyBytes("<i8", "(3,)", AsBytes<int64_t>({30, -1, 20}))},
      {"extra.npy", "not even an array"}};
  for (const bool deflate : {false, true}) {
    for (const bool zip64 : {false, true}) {
      ImportOptions options;
      options.inputs = {Write("in.npz", ZipBytes(members, {.deflate = deflate, .zip64 = zip64}))};
      const auto shard = Build(options, ScalarType::kF16);
      ASSERT_NE(shard, nullptr);
      EXPECT_EQ(shard->int_id(0), 30);
      EXPECT_EQ(shard->int_id(1), -1);
    }
  }
}

TEST_F(ImportTest, ALargeDeflatedMemberStreams) {
  // The array is larger than every buffer between file and build, and it compresses well.
  std::vector<float> values(300'000 * kDim);
  for (size_t idx = 0; idx < values.size(); ++idx) values[idx] = static_cast<float>(idx % 1000) / 64.0f;
  ImportOptions options;
  options.inputs = {
      Write("in.npz", ZipBytes({{"tokens.npy", NpyBytes("<f4", "(300000, 8)", AsBytes(values))},
                                {"lengths.npy", NpyBytes("<i4", "(30000,)", AsBytes(std::vector<int32_t>(30000, 10)))}},
                               {.deflate = true, .zip64 = false}))};
  absl::StatusOr<Import> import = OpenImport(options);
  ASSERT_TRUE(import.ok()) << import.status();
  const auto manifest = BuildCollection({.folder = folder_.Path("out"), .name = "x", .storage = ScalarType::kF32},
                                        *import->catalog, *import->tokens, nullptr);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  const auto shard = *Shard::Open(folder_.Path("out"), *manifest, manifest->shards[0], Access::kMapped, true);
  const auto* stored = static_cast<const float*>(shard->documents().tokens);
  EXPECT_EQ(std::vector<float>(stored, stored + values.size()), values);
}

TEST_F(ImportTest, WrongArchivesAreNamed) {
  ImportOptions options;
  const std::string tokens = NpyBytes("<f2", "(6, 8)", ValueBytes(ElementType::kF16));
  const std::string lengths = NpyBytes("<i4", "(3,)", AsBytes<int32_t>({2, 1, 3}));
  const auto npz = [&](const std::vector<std::pair<std::string, std::string>>& members) {
    options.inputs = {Write("in.npz", ZipBytes(members, {}))};
    return Error(options);
  };
  EXPECT_THAT(npz({{"lengths.npy", lengths}}), HasSubstr("in.npz: no array \"tokens\"; it holds: lengths.npy"));
  EXPECT_THAT(npz({{"tokens.npy", tokens}}), HasSubstr("no array \"lengths\""));
  // If the archive has many members, the message names only a few of them.
  std::vector<std::pair<std::string, std::string>> many;
  for (int idx = 0; idx < 1460; ++idx) many.emplace_back(Cat("archive/data/", idx), "x");
  EXPECT_THAT(npz(many), ::testing::EndsWith("it holds: archive/data/0, archive/data/1, archive/data/2, "
                                             "archive/data/3, archive/data/4 and 1455 more"));
  many.emplace_back("archive/data.pkl", "x");
  EXPECT_THAT(npz(many), HasSubstr("1456 more; it is a file of torch.save, which `maxsim import --from pt` reads"));
  EXPECT_THAT(npz({{"tokens.npy", tokens}, {"lengths.npy", lengths}, {"offsets.npy", lengths}}), HasSubstr("both"));
  EXPECT_THAT(npz({{"tokens.npy", tokens}, {"lengths.npy", lengths}, {"tokens.npy", tokens}}),
              HasSubstr("in.npz: holds the member \"tokens.npy\" twice"));
  EXPECT_THAT(npz({{"tokens.npy", tokens},
                   {"lengths.npy", lengths},
                   {"ids.npy", NpyBytes("<U1", "(3,)", std::string(12, 'x'))}}),
              HasSubstr("go into a file of their own, --ids"));
  EXPECT_THAT(npz({{"tokens.npy", tokens},
                   {"lengths.npy", lengths},
                   {"ids.npy", NpyBytes("<i4", "(3,)", AsBytes<int32_t>({4, 5, 4}))}}),
              HasSubstr("[2]: id 4 is already the id of document 0"));
  EXPECT_THAT(npz({{"tokens.npy", tokens},
                   {"lengths.npy", lengths},
                   {"ids.npy", NpyBytes("<i4", "(2,)", AsBytes<int32_t>({4, 5}))}}),
              HasSubstr("2 ids for 3 documents"));
  EXPECT_THAT(npz({{"tokens.npy", "x"}, {"lengths.npy", lengths}}), HasSubstr("tokens.npy: not a .npy"));

  options.ids = Write("docs.jsonl", "{\"id\":1}\n{\"id\":2}\n{\"id\":3}");
  EXPECT_THAT(npz({{"tokens.npy", tokens},
                   {"lengths.npy", lengths},
                   {"ids.npy", NpyBytes("<i4", "(3,)", AsBytes<int32_t>({4, 5, 6}))}}),
              HasSubstr("given twice"));
  options.ids.clear();
  options.inputs = {Write("one.npy", tokens)};
  EXPECT_THAT(Error(options), HasSubstr("give it as --tokens"));
  options.inputs = {Write("in.bin", "what is this")};
  EXPECT_THAT(Error(options), HasSubstr("neither .npz nor readable as safetensors"));
  options.inputs = {folder_.Path("none")};
  EXPECT_THAT(Error(options), HasSubstr("cannot open"));
  options.tokens = "x";
  EXPECT_THAT(Error(options), HasSubstr("give --input, or --tokens"));
  EXPECT_THAT(Error(ImportOptions()), HasSubstr("give --input, or --tokens"));
}

TEST_F(ImportTest, DamagedArchivesAreErrorsAndNeverCrash) {
  const std::vector<std::pair<std::string, std::string>> members = {
      {"tokens.npy", NpyBytes("<f2", "(6, 8)", ValueBytes(ElementType::kF16))},
      {"lengths.npy", NpyBytes("<i4", "(3,)", AsBytes<int32_t>({2, 1, 3}))}};
  for (const bool deflate : {false, true}) {
    const std::string good = ZipBytes(members, {.deflate = deflate, .zip64 = true});
    for (size_t length = 0; length < good.size(); ++length) {
      EXPECT_FALSE(ParseZip(std::string_view(good).substr(0, length)).ok()) << length;
    }
    int found = 0;
    for (size_t at = 0; at < good.size(); at += 3) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x10);
      ImportOptions options;
      options.inputs = {Write("in.npz", bad)};
      absl::StatusOr<Import> import = OpenImport(options);
      absl::Status status = import.status();
      if (import.ok()) {
        status = import->tokens->Next(import->tokens->num_tokens()).status();
      }
      found += status.ok() ? 0 : 1;
    }
    // Wrong values are found by the CRC, other damage because the archive contradicts itself. Some bytes have no
    // meaning, so their damage goes unnoticed.
    EXPECT_GT(found, deflate ? 66 : 100);
  }
}

// Zeros have the best compression ratio that deflate can reach. The check of sizes must still accept them.
TEST_F(ImportTest, AnArchiveOfZerosIsReadWhole) {
  std::string zeros;
  zeros.resize(16'000'000);
  ImportOptions options;
  options.inputs = {
      Write("in.npz", ZipBytes({{"tokens.npy", NpyBytes("<f4", "(500000, 8)", zeros)},
                                {"lengths.npy", NpyBytes("<i4", "(500,)", AsBytes(std::vector<int32_t>(500, 1000)))}},
                               {.deflate = true, .zip64 = false}))};
  EXPECT_LT(std::filesystem::file_size(options.inputs[0]), 17'000u);
  absl::StatusOr<Import> import = OpenImport(options);
  ASSERT_TRUE(import.ok()) << import.status();
  EXPECT_TRUE(import->tokens->Next(500'000).ok());
}

// A member states its uncompressed size, and the import allocates memory for it. So a size that deflate cannot reach
// from the compressed bytes must be refused.
TEST_F(ImportTest, AMemberThatClaimsMoreThanDeflateCanMakeIsRefused) {
  const std::string tokens = NpyBytes("<f2", "(6, 8)", ValueBytes(ElementType::kF16));
  const std::string good = ZipBytes({{"tokens.npy", tokens}}, {.deflate = true, .zip64 = true});
  ASSERT_TRUE(ParseZip(good).ok());
  const uint64_t compressed = static_cast<uint64_t>((*ParseZip(good))[0].end - (*ParseZip(good))[0].begin);
  const auto claim = [&](uint64_t size) {
    std::string bytes = good;
    // In the directory entry, the size comes after 46 bytes, the name, and four bytes of the extra field.
    const size_t at = bytes.rfind("PK\x01\x02") + 46 + std::string_view("tokens.npy").size() + 4;
    std::memcpy(bytes.data() + at, &size, sizeof(size));
    return ParseZip(bytes).status();
  };
  EXPECT_TRUE(claim(compressed * 1032).ok());
  for (const uint64_t size : {compressed * 1032 + 8192, uint64_t{160'000'000'000}, uint64_t{INT64_MAX}}) {
    const absl::Status status = claim(size);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(std::string(status.message()), HasSubstr("more than deflate can make of"));
  }
}

// Values must be checked while they are decompressed: a wrong value near the beginning must be reported before damaged
// data further back is reached.
TEST_F(ImportTest, ArraysAreCheckedWhileTheyAreRead) {
  constexpr size_t kCount = 1'000'000;
  std::mt19937_64 generator(1);
  const std::string tokens = NpyBytes("<f2", "(1000000, 8)", std::string(kCount * 16, '\0'));
  const auto error = [&](const std::string& name, std::vector<int32_t> values) {
    // Random numbers compress badly, so the data has several deflate blocks. At least one block before the damaged
    // second half stays intact.
    for (size_t idx = 10; idx < values.size(); ++idx) values[idx] = static_cast<int32_t>(1 + generator() % 65536);
    std::string bytes = ZipBytes(
        {{"tokens.npy", tokens}, {name + ".npy", NpyBytes("<i4", Cat("(", values.size(), ",)"), AsBytes(values))}},
        {.deflate = true, .zip64 = true});
    // Overwrites the second half of the member's data with bytes 0xff, which deflate cannot decode as a block.
    const ZipMember member = (*ParseZip(bytes))[1];
    std::fill(bytes.begin() + (member.begin + member.end) / 2, bytes.begin() + member.end, '\xff');
    ImportOptions options;
    options.inputs = {Write("in.npz", bytes)};
    return std::string(OpenImport(options).status().message());
  };
  std::vector<int32_t> values(kCount, 1);
  EXPECT_THAT(error("lengths", values), HasSubstr("token vectors"));
  values[5] = -7;
  EXPECT_THAT(error("lengths", values), HasSubstr("document 5 has -7 tokens"));
  values = {0, 1, 2, 3, 4, 3};
  values.resize(kCount, 0);
  EXPECT_THAT(error("offsets", values), HasSubstr("offsets.npy[5]: 3 is not in 4 .. 1000000"));
}

}  // namespace
}  // namespace maxsim::collection
