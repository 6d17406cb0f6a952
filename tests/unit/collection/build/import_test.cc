// Tests imports of users' files, and the collections that are built from them.
#include "collection/build/import.h"

#include <cstring>
#include <string>

#include "base/file.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/unit/collection/build/import_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

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
  // Each of these lines is longer than the blocks in which the import reads the file.
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
      {"7\n8\n7", "ids.txt:3: id 7 is already the id of document 0"},
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
      {"{\"id\":1}\n{\"id\":2}\n{\"id\":1}", "docs.jsonl:3: id 1 is already the id of document 0"},
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
              HasSubstr("65537 tokens; must be 1 to 65536"));
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
  EXPECT_THAT(with_tokens("<f4", "(6, 4)", std::string(96, '\0')), HasSubstr("4 columns; must be 8 to 4096"));
  EXPECT_THAT(with_tokens("<f4", "(0, 8)", ""), HasSubstr("at most 0"));
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
  // A file that was truncated after it was opened must give an error instead of a SIGBUS.
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
