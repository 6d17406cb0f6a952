// Tests the way from files, as users bring them, to a collection.
#include "collection/build/import.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string>

#include "base/file.h"
#include "base/text.h"
#include "collection/formats/safetensors.h"
#include "collection/formats/zip.h"
#include "collection/shard.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/collection/zip_writer.h"

namespace maxsim::collection {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kDim = 8;

// Returns the values of three documents of 2, 1 and 3 tokens.
std::vector<float> Values() {
  std::vector<float> values;
  for (int idx = 0; idx < 6 * kDim; ++idx) values.push_back(static_cast<float>(idx - 20) / 8.0f);
  return values;
}

std::string ValueBytes(ElementType type) {
  const std::vector<float> values = Values();
  if (type == ElementType::kF64) return AsBytes(std::vector<double>(values.begin(), values.end()));
  std::string bytes(values.size() * SizeOf(type), '\0');
  ConvertElements(ScalarType::kF32, values.data(), *ToScalarType(type), bytes.data(), values.size());
  return bytes;
}

class ImportTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    WriteBytes(folder_.Path(name), bytes);
    return folder_.Path(name);
  }
  ImportOptions NpyOptions(const std::string& jsonl = "") {
    ImportOptions options;
    options.tokens = Write("tokens.npy", NpyBytes("<f4", "(6, 8)", ValueBytes(ElementType::kF32)));
    options.lengths = Write("lengths.npy", NpyBytes("<i4", "(3,)", AsBytes<int32_t>({2, 1, 3})));
    if (!jsonl.empty()) options.ids = Write("docs.jsonl", jsonl);
    return options;
  }

  // Imports and builds, and expects the same values whatever files they came in.
  std::shared_ptr<const Shard> Build(const ImportOptions& options, ScalarType storage = ScalarType::kF32) {
    absl::StatusOr<Import> import = OpenImport(options);
    EXPECT_TRUE(import.ok()) << import.status();
    if (!import.ok()) return nullptr;
    const BuildOptions build{.folder = folder_.Path("out"), .name = "x", .storage = storage, .allow_other_shape = true};
    const auto manifest = BuildCollection(build, *import->catalog, *import->tokens, import->payloads.get());
    EXPECT_TRUE(manifest.ok()) << manifest.status();
    if (!manifest.ok()) return nullptr;
    auto shard = Shard::Open(folder_.Path("out"), *manifest, manifest->shards[0], Access::kCopied, true);
    EXPECT_TRUE(shard.ok()) << shard.status();
    if (!shard.ok()) return nullptr;
    const DocumentsView& view = (*shard)->documents();
    EXPECT_THAT(std::vector<int64_t>(view.offsets, view.offsets + 4), ElementsAre(0, 2, 3, 6));
    std::vector<float> stored(6 * kDim);
    ConvertElements(view.type, view.tokens, ScalarType::kF32, stored.data(), stored.size());
    EXPECT_EQ(stored, Values());
    return *std::move(shard);
  }

  std::string Error(const ImportOptions& options) {
    absl::StatusOr<Import> import = OpenImport(options);
    if (!import.ok()) return std::string(import.status().message());
    const auto manifest = BuildCollection({.folder = folder_.Path("out"), .name = "x"}, *import->catalog,
                                          *import->tokens, import->payloads.get());
    EXPECT_FALSE(manifest.ok());
    return std::string(manifest.status().message());
  }

  // Returns a safetensors file of these tensors.
  std::string Safetensors(
      const std::vector<std::tuple<std::string, std::string, std::vector<int64_t>, std::string>>& parts) {
    std::vector<SafetensorsTensor> tensors;
    std::string data;
    for (const auto& [name, dtype, shape, bytes] : parts) {
      tensors.push_back({name, dtype, shape, 0, 0});
      data += bytes;
    }
    return Write("input.safetensors", FormatSafetensorsHeader({}, tensors, 8) + data);
  }

  TemporaryFolder folder_;
};

TEST_F(ImportTest, NpyOfEachTypeAndLengthsOfEachIntegerType) {
  const std::pair<const char*, ElementType> types[] = {
      {"<f2", ElementType::kF16}, {"<f4", ElementType::kF32}, {"<f8", ElementType::kF64}};
  for (const auto& [descr, type] : types) {
    ImportOptions options = NpyOptions();
    options.tokens = Write("tokens.npy", NpyBytes(descr, "(6, 8)", ValueBytes(type)));
    const auto shard = Build(options);
    ASSERT_NE(shard, nullptr);
    EXPECT_EQ(shard->int_id(2), 2);
    EXPECT_EQ(shard->payload(0), "");
  }
  const std::pair<const char*, std::string> lengths[] = {
      {"|u1", AsBytes<uint8_t>({2, 1, 3})},  {"<i2", AsBytes<int16_t>({2, 1, 3})},
      {"<u4", AsBytes<uint32_t>({2, 1, 3})}, {"<i8", AsBytes<int64_t>({2, 1, 3})},
      {"<u8", AsBytes<uint64_t>({2, 1, 3})},
  };
  for (const auto& [descr, bytes] : lengths) {
    ImportOptions options = NpyOptions();
    options.lengths = Write("lengths.npy", NpyBytes(descr, "(3,)", bytes, 2));
    EXPECT_NE(Build(options, ScalarType::kF16), nullptr);
  }
}

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
  // The array is larger than every buffer on the way, and compressible.
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

TEST_F(ImportTest, SafetensorsWithLengthsOrOffsetsAndIdsOfBothTypes) {
  for (const char* dtype : {"F16", "BF16", "F32", "F64"}) {
    ImportOptions options;
    options.inputs = {Safetensors({{"tokens", dtype, {6, 8}, ValueBytes(*ElementTypeFromSafetensors(dtype))},
                                   {"lengths", "I32", {3}, AsBytes<int32_t>({2, 1, 3})}})};
    ASSERT_NE(Build(options), nullptr);
  }
  ImportOptions options;
  options.inputs = {Safetensors({{"tokens", "F16", {6, 8}, ValueBytes(ElementType::kF16)},
                                 {"offsets", "I64", {4}, AsBytes<int64_t>({0, 2, 3, 6})},
                                 {"ids", "U32", {3}, AsBytes<uint32_t>({5, 6, 7})}})};
  EXPECT_EQ(Build(options)->int_id(1), 6);
  options.id_type = IdType::kString;
  EXPECT_EQ(Build(options)->string_id(1), "6");
}

TEST_F(ImportTest, AShardFileCanBeImportedAgain) {
  SmallCollection collection;
  collection.lengths = {2, 1, 3};
  collection.ids = {"a", "bc", "d"};
  collection.payloads = {"{\"a\":1}", "", "{\"b\":2}"};
  const std::string source = folder_.Path("source");
  const auto manifest = BuildSmall(collection, {.folder = source, .name = "x", .storage = ScalarType::kF32});
  ASSERT_TRUE(manifest.ok());
  ImportOptions options;
  options.inputs = {JoinPath(source, manifest->shards[0].file)};
  absl::StatusOr<Import> import = OpenImport(options);
  ASSERT_TRUE(import.ok()) << import.status();
  const auto again = BuildCollection({.folder = folder_.Path("again"), .name = "x", .storage = ScalarType::kF32},
                                     *import->catalog, *import->tokens, import->payloads.get());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->shards[0].checksum, manifest->shards[0].checksum);
}

TEST_F(ImportTest, JsonLinesGiveIdsAndPayloads) {
  const auto shard =
      Build(NpyOptions("{\"id\":\"a\",\"title\":\"A\"}\r\n{\"id\":\"b\"}\n{ \"text\": \"C\", \"id\":\"c\" }\n\n \n"));
  ASSERT_NE(shard, nullptr);
  EXPECT_EQ(shard->string_id(2), "c");
  EXPECT_EQ(shard->payload(0), "{\"title\":\"A\"}");
  EXPECT_EQ(shard->payload(1), "");
  EXPECT_EQ(shard->payload(2), "{\"text\":\"C\"}");
  EXPECT_EQ(Build(NpyOptions("{\"id\":3}\n{\"id\":-2}\n{\"id\":1}"))->int_id(1), -2);
  // These lines are longer than the blocks that the file is read in.
  std::string long_lines;
  for (const char* id : {"a", "b", "c"})
    long_lines += Cat("{\"id\":\"", id, "\",\"x\":\"", std::string(700'000, *id), "\"}\n");
  EXPECT_EQ(Build(NpyOptions(long_lines))->payload(2).size(), 700'008);
}

TEST_F(ImportTest, PlainTextGivesAnIdALine) {
  ImportOptions options = NpyOptions();
  options.ids = Write("ids.txt",
                      "\xef\xbb\xbf"
                      "a b\r\n[7]\n\"c\"\n\n");
  const auto shard = Build(options);
  ASSERT_NE(shard, nullptr);
  EXPECT_EQ(shard->string_id(0), "a b");
  EXPECT_EQ(shard->string_id(1), "[7]");
  EXPECT_EQ(shard->string_id(2), "\"c\"");
  EXPECT_EQ(shard->payload(0), "");
  options.ids = Write("ids.txt", "7\n-8\n9");
  EXPECT_EQ(Build(options)->string_id(1), "-8");
  options.id_type = IdType::kInt64;
  EXPECT_EQ(Build(options)->int_id(1), -8);
  const std::pair<const char*, const char*> wrong[] = {
      {"7\n08\n9", "ids.txt:2: id \"08\" is not a 64-bit integer"},
      {"7\n\n9", "ids.txt:2: an empty line between documents"},
      {"\xef\xbb\xbf\n9", "ids.txt:1: an empty line between documents"},
      {"\xef\xbb\xbf", "0 documents, but the lengths are those of 3"},
      {"7\n8\n7", "ids.txt:3: id 7 is that of document 0 already"},
      {"7\n8", "2 documents, but the lengths are those of 3"},
      {"7\n8\n9\n10", "ids.txt:4: more documents than the 3"},
  };
  for (const auto& [text, message] : wrong) {
    options.ids = Write("ids.txt", text);
    EXPECT_THAT(Error(options), HasSubstr(message));
  }
  options.id_type.reset();
  options.ids = Write("ids.txt", "\xff\nb\nc");
  EXPECT_THAT(Error(options), HasSubstr("ids.txt:1: id \"?\" is not UTF-8"));
  // A first line that begins with a brace makes the file JSON Lines under any name.
  options.ids = Write("ids.txt", "{\"id\":\"x\",\"t\":1}\n{\"id\":\"y\"}\n{\"id\":\"z\"}");
  EXPECT_EQ(Build(options)->payload(0), "{\"t\":1}");
}

TEST_F(ImportTest, AGivenIdTypeConvertsWhatConvertsExactly) {
  const std::string mixed = "{\"id\":\"7\"}\n{\"id\":8}\n{\"id\":\"-9\"}\n";
  ImportOptions options = NpyOptions(mixed);
  EXPECT_THAT(Error(options), HasSubstr("docs.jsonl:2: id 8 is an integer, unlike those before it"));
  options.id_type = IdType::kInt64;
  EXPECT_EQ(Build(options)->int_id(2), -9);
  options.id_type = IdType::kString;
  EXPECT_EQ(Build(options)->string_id(1), "8");
  options.id_type = IdType::kInt64;
  for (const char* id : {"07", "+7", " 7", "7 ", "1e3", "x", "", "9223372036854775808"}) {
    options = NpyOptions(Cat("{\"id\":1}\n{\"id\":\"", id, "\"}\n{\"id\":3}"));
    options.id_type = IdType::kInt64;
    EXPECT_THAT(Error(options), HasSubstr("docs.jsonl:2: id ")) << id;
  }
}

TEST_F(ImportTest, WrongInputIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> lines[] = {
      {"{\"id\":\"a\"}\n{\"id\":\"b\"}", "2 documents, but the lengths are those of 3"},
      {"{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n{\"id\":4}", "docs.jsonl:4: more documents than the 3"},
      {"{\"id\":1}\n{\"id\":2}\n{\"id\":1}", "docs.jsonl:3: id 1 is that of document 0 already"},
      {"{\"id\":1}\n\n{\"id\":2}\n{\"id\":3}", "docs.jsonl:2: an empty line between documents"},
      {"{\"id\":\"\"}\n{\"id\":\"b\"}\n{\"id\":\"c\"}", "docs.jsonl:1: an empty id"},
      {"{\"id\":1}\n{\"id\":2,}\n{\"id\":3}", "docs.jsonl:2: malformed JSON"},
      {"[1]\n", "docs.jsonl:1: a JSON object expected"},
      {" \n", "0 documents"},
  };
  for (const auto& [jsonl, message] : lines) EXPECT_THAT(Error(NpyOptions(jsonl)), HasSubstr(message));
  EXPECT_THAT(Error(NpyOptions(Cat("{\"id\":\"", std::string(513, 'x'), "\"}\n"))),
              HasSubstr("513 bytes, the limit is 512"));
  EXPECT_THAT(Error(NpyOptions(std::string(6 << 20, ' '))), HasSubstr("docs.jsonl:1: longer than the limit"));

  const auto with_lengths = [&](const char* descr, const char* shape, const std::string& bytes) {
    ImportOptions options = NpyOptions();
    options.lengths = Write("lengths.npy", NpyBytes(descr, shape, bytes));
    return Error(options);
  };
  EXPECT_THAT(with_lengths("<i4", "(3,)", AsBytes<int32_t>({2, 0, 4})),
              HasSubstr("lengths.npy: document 1 has 0 tokens"));
  EXPECT_THAT(with_lengths("<i4", "(3,)", AsBytes<int32_t>({2, -1, 5})), HasSubstr("document 1 has -1 tokens"));
  EXPECT_THAT(with_lengths("<i4", "(3,)", AsBytes<int32_t>({2, 65537, 4})),
              HasSubstr("65537 tokens, the limits are 1 .. 65536"));
  EXPECT_THAT(with_lengths("<i4", "(2,)", AsBytes<int32_t>({2, 3})),
              HasSubstr("sum to 5, but there are 6 token vectors"));
  EXPECT_THAT(with_lengths("<i4", "(7,)", AsBytes<int32_t>({1, 1, 1, 1, 1, 1, 1})), HasSubstr("7 entries, at most 6"));
  EXPECT_THAT(with_lengths("<f4", "(3,)", AsBytes<float>({2, 1, 3})), HasSubstr("f32 [3], an integer array"));
  EXPECT_THAT(with_lengths("<i4", "(3, 1)", AsBytes<int32_t>({2, 1, 3})), HasSubstr("i32 [3, 1]"));
  EXPECT_THAT(with_lengths("<u8", "(1,)", AsBytes<uint64_t>({~uint64_t{0}})), HasSubstr("[0]: more than 2^63"));

  const auto with_tokens = [&](const char* descr, const char* shape, const std::string& bytes) {
    ImportOptions options = NpyOptions();
    options.tokens = Write("tokens.npy", NpyBytes(descr, shape, bytes));
    return Error(options);
  };
  EXPECT_THAT(with_tokens("<i4", "(6, 8)", std::string(192, '\0')),
              HasSubstr("i32 values; f16, bf16, f32, f64, f8_e4m3"));
  EXPECT_THAT(with_tokens("<f4", "(48,)", std::string(192, '\0')), HasSubstr("shape [48], expected"));
  EXPECT_THAT(with_tokens("<f4", "(3, 2, 8)", std::string(192, '\0')), HasSubstr("shape [3, 2, 8]"));
  EXPECT_THAT(with_tokens("<f4", "(6, 4)", std::string(96, '\0')), HasSubstr("4 columns, the limits are 8 .. 4096"));
  EXPECT_THAT(with_tokens("<f4", "(0, 8)", ""), HasSubstr("at most 0"));
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
  // The message names some members where there are many.
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
              HasSubstr("[2]: id 4 is that of document 0 already"));
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
  EXPECT_THAT(Error(options), HasSubstr("either --input, or --tokens"));
  EXPECT_THAT(Error(ImportOptions()), HasSubstr("either --input, or --tokens"));
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
    // All damage that matters is found: the data's by the CRC, the rest's by its consistency.
    EXPECT_GT(found, deflate ? 66 : 100);
  }
}

// The best that deflate can do passes the archive's check of sizes.
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

// Sizes that the compressed bytes cannot come to would let a small file ask for any amount of memory.
TEST_F(ImportTest, AMemberThatClaimsMoreThanDeflateCanMakeIsRefused) {
  const std::string tokens = NpyBytes("<f2", "(6, 8)", ValueBytes(ElementType::kF16));
  const std::string good = ZipBytes({{"tokens.npy", tokens}}, {.deflate = true, .zip64 = true});
  ASSERT_TRUE(ParseZip(good).ok());
  const uint64_t compressed = static_cast<uint64_t>((*ParseZip(good))[0].end - (*ParseZip(good))[0].begin);
  const auto claim = [&](uint64_t size) {
    std::string bytes = good;
    // The size is in the directory entry: behind its 46 bytes, the name, and four bytes of the extra field.
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

// Whatever a file claims, no more of it is decompressed and held than has been found good: a wrong value at the front
// is found before damage behind it.
TEST_F(ImportTest, ArraysAreCheckedWhileTheyAreRead) {
  constexpr size_t kCount = 1'000'000;
  std::mt19937_64 generator(1);
  const std::string tokens = NpyBytes("<f2", "(1000000, 8)", std::string(kCount * 16, '\0'));
  const auto error = [&](const std::string& name, std::vector<int32_t> values) {
    // The numbers do not compress well, so that a member that is cut off still has its first block.
    for (size_t idx = 10; idx < values.size(); ++idx) values[idx] = static_cast<int32_t>(1 + generator() % 65536);
    std::string bytes = ZipBytes(
        {{"tokens.npy", tokens}, {name + ".npy", NpyBytes("<i4", Cat("(", values.size(), ",)"), AsBytes(values))}},
        {.deflate = true, .zip64 = true});
    // Zeros over the second half of the member's data make an invalid block.
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

TEST_F(ImportTest, AnInputThatChangesDuringTheBuildIsAnError) {
  ImportOptions options = NpyOptions("{\"id\":1,\"a\":1}\n{\"id\":2}\n{\"id\":3}\n");
  absl::StatusOr<Import> import = OpenImport(options);
  ASSERT_TRUE(import.ok()) << import.status();
  WriteBytes(options.ids, "{\"id\":1,\"a\":12}\n{\"id\":2}\n{\"id\":3}\n");
  EXPECT_THAT(std::string(BuildCollection({.folder = folder_.Path("out"), .name = "x"}, *import->catalog,
                                          *import->tokens, import->payloads.get())
                              .status()
                              .message()),
              HasSubstr("changed during the build"));
  // A truncated file gives an error, and no signal.
  import = OpenImport(NpyOptions());
  ASSERT_TRUE(import.ok());
  WriteBytes(options.tokens, "");
  EXPECT_EQ(BuildCollection({.folder = folder_.Path("out"), .name = "x"}, *import->catalog, *import->tokens, nullptr)
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace maxsim::collection
