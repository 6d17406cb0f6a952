// The file that holds a shard's fields.
#include "collection/fields/field_file.h"

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collection/fields/field_file_maker.h"
#include "collection/formats/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

const std::vector<Field>& AllKinds() {
  static const auto* const fields =
      new std::vector<Field>(*ParseFields("lang:keyword,tags:keywords,year:integer,price:number,sold:boolean,at:time"));
  return *fields;
}

std::string MakeFile(const std::vector<Field>& fields, const std::vector<std::string>& payloads) {
  FieldFileMaker maker(fields);
  for (const std::string& payload : payloads) {
    const absl::Status status = maker.Add(payload);
    EXPECT_TRUE(status.ok()) << status;
  }
  return maker.Make();
}

// Returns a file of fields of three documents: one with a value in every field, one without any, one with other values.
std::string SmallFile() {
  return MakeFile(AllKinds(),
                  {R"({"lang":"en","tags":["b","a"],"year":-1,"price":0.5,"sold":true,"at":"1970-01-01T00:00:01Z"})",
                   "", R"({"lang":"de","tags":["b"],"year":0,"price":0,"sold":false,"at":"1969-12-31T23:59:59Z"})"});
}

std::string RefusalOfFile(const std::string& bytes, int64_t num_documents = 3) {
  const auto columns = ParseFieldFile(bytes, AllKinds(), num_documents);
  if (columns.ok()) return "(accepted)";
  EXPECT_TRUE(absl::IsInvalidArgument(columns.status()));
  return std::string(columns.status().message());
}

// Overwrites bytes of a tensor.
std::string Patched(const std::string& name, int64_t at, const std::string& patch) {
  std::string bytes = SmallFile();
  const auto header = ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()));
  EXPECT_TRUE(header.ok()) << header.status();
  const SafetensorsTensor* const tensor = header->Find(name);
  EXPECT_NE(tensor, nullptr) << name;
  bytes.replace(static_cast<size_t>(tensor->begin + at), patch.size(), patch);
  return bytes;
}

template <typename T>
std::string Number(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

TEST(FieldFileTest, ValuesReturn) {
  const std::string bytes = SmallFile();
  const auto columns = ParseFieldFile(bytes, AllKinds(), 3);
  ASSERT_TRUE(columns.ok()) << columns.status();
  ASSERT_EQ(columns->size(), 6);
  for (const FieldColumn& column : *columns) {
    EXPECT_EQ(column.num_present, 2);
    EXPECT_EQ(column.value(1), FieldValue());
  }
  EXPECT_EQ(columns->at(0).value(0), FieldValue("en"));
  EXPECT_EQ(columns->at(0).value(2), FieldValue("de"));
  EXPECT_EQ(columns->at(0).num_terms, 2);
  EXPECT_EQ(columns->at(0).term(0), "de");
  EXPECT_EQ(columns->at(1).value(0), FieldValue(std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(columns->at(1).num_list_terms(), 3);
  EXPECT_EQ(columns->at(2).value(0), FieldValue(int64_t{-1}));
  EXPECT_EQ(columns->at(2).value(2), FieldValue(int64_t{0}));
  EXPECT_EQ(columns->at(3).value(0), FieldValue(0.5));
  EXPECT_EQ(columns->at(4).value(0), FieldValue(true));
  EXPECT_EQ(columns->at(4).value(2), FieldValue(false));
  EXPECT_EQ(columns->at(5).value(2), FieldValue(int64_t{-1'000'000}));
}

// Writes random payloads to a file of fields and compares the values in it with those that FieldReader reads from the
// payloads. The counts of documents include every remainder modulo 8, because booleans are stored as bits.
TEST(FieldFileTest, ValuesOfRandomPayloadsReturn) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  std::mt19937_64 random(seed);
  for (int num_documents = 1; num_documents < 40; ++num_documents) {
    std::vector<std::string> payloads;
    for (int idx = 0; idx < num_documents; ++idx) {
      std::vector<std::string> members;
      const auto maybe = [&](const std::string& member) {
        if (random() % 4 != 0) members.push_back(member);
      };
      maybe(absl::StrCat("\"lang\":\"l", random() % 5, "\""));
      std::string tags;
      for (uint64_t tag = random() % 4; tag > 0; --tag)
        absl::StrAppend(&tags, tags.empty() ? "" : ",", "\"t", random() % 9, "\"");
      maybe(absl::StrCat("\"tags\":[", tags, "]"));
      maybe(absl::StrCat("\"year\":", static_cast<int64_t>(random())));
      maybe(absl::StrCat("\"price\":", static_cast<double>(random() % 1000) / 7));
      maybe(absl::StrCat("\"sold\":", random() % 2 == 0 ? "true" : "false"));
      maybe(absl::StrCat("\"at\":\"2026-01-02T03:04:0", random() % 10, "Z\""));
      std::string payload;
      for (const std::string& member : members) absl::StrAppend(&payload, payload.empty() ? "{" : ",", member);
      payloads.push_back(payload.empty() ? "" : payload + "}");
    }
    const std::string bytes = MakeFile(AllKinds(), payloads);
    const auto columns = ParseFieldFile(bytes, AllKinds(), num_documents);
    ASSERT_TRUE(columns.ok()) << columns.status();
    FieldReader reader(AllKinds());
    for (int document = 0; document < num_documents; ++document) {
      const auto expected = reader.Read(payloads[static_cast<size_t>(document)]);
      ASSERT_TRUE(expected.ok()) << expected.status();
      for (size_t idx = 0; idx < columns->size(); ++idx) {
        EXPECT_EQ((*columns)[idx].value(document), (**expected)[idx]) << payloads[static_cast<size_t>(document)];
      }
    }
  }
}

TEST(FieldFileTest, EveryTruncationIsRefused) {
  const std::string bytes = SmallFile();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(RefusalOfFile(bytes.substr(0, size)), "(accepted)") << size;
  }
}

TEST(FieldFileTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(RefusalOfFile(SmallFile(), 4), HasSubstr("lang.values: shape [3], expected [4]"));
  EXPECT_THAT(RefusalOfFile(MakeFile(*ParseFields("lang:keyword"), {"", "", ""})),
              HasSubstr("__metadata__.fields: \"lang:keyword\", expected \"lang:keyword,tags:keywords"));
  EXPECT_THAT(RefusalOfFile(Patched("lang.values", 0, Number(uint32_t{3}))),
              HasSubstr("lang.values[0]: 3, but there are 2 terms"));
  EXPECT_THAT(RefusalOfFile(Patched("lang.term_bytes", 0, "z")),
              HasSubstr("lang.term_bytes[1]: terms do not ascend: \"en\""));
  EXPECT_THAT(RefusalOfFile(Patched("lang.term_bytes", 2, "de")),
              HasSubstr("lang.term_bytes[1]: terms do not ascend: \"de\""));
  EXPECT_THAT(RefusalOfFile(Patched("lang.term_bytes", 2, "\xff")),
              HasSubstr("lang.term_bytes[1]: the term is not UTF-8"));
  EXPECT_THAT(RefusalOfFile(Patched("lang.term_offsets", 0, Number(int64_t{1}))),
              HasSubstr("lang.term_offsets[0]: 1, expected 0"));
  EXPECT_THAT(RefusalOfFile(Patched("lang.term_offsets", 8, Number(int64_t{5}))),
              HasSubstr("lang.term_offsets[1]: 5 is not in 0 .. 4"));
  EXPECT_THAT(RefusalOfFile(Patched("lang.term_offsets", 16, Number(int64_t{3}))),
              HasSubstr("lang.term_offsets[2]: 3, expected 4"));
  EXPECT_THAT(RefusalOfFile(Patched("tags.values", 4, Number(uint32_t{2}))),
              HasSubstr("tags.values[1]: 2, but there are 2 terms"));
  EXPECT_THAT(RefusalOfFile(Patched("tags.values", 0, Number(uint32_t{1}))),
              HasSubstr("tags.values[1]: terms of a document do not ascend"));
  EXPECT_THAT(RefusalOfFile(Patched("tags.offsets", 8, Number(int64_t{4}))),
              HasSubstr("tags.offsets[1]: 4 is not in 0 .. 3"));
  EXPECT_THAT(RefusalOfFile(Patched("year.values", 8, Number(int64_t{7}))),
              HasSubstr("year.values[1]: 7, but the document has no value"));
  EXPECT_THAT(RefusalOfFile(Patched("year.present", 0, "\x0d")),
              HasSubstr("year.present[0]: has bits of more than 3 documents"));
  EXPECT_THAT(RefusalOfFile(Patched("price.values", 8, Number(0.25))),
              HasSubstr("price.values[1]: 0.25, but the document has no value"));
  EXPECT_THAT(RefusalOfFile(Patched("price.values", 8, Number(-0.0))), HasSubstr("price.values[1]: -0"));
  EXPECT_THAT(RefusalOfFile(Patched("price.values", 16, Number(-0.0))), HasSubstr("price.values[2]: -0, expected 0"));
  EXPECT_THAT(RefusalOfFile(Patched("price.values", 0, Number(std::numeric_limits<double>::infinity()))),
              HasSubstr("price.values[0]: inf is not finite"));
  EXPECT_THAT(RefusalOfFile(Patched("price.values", 0, Number(std::numeric_limits<double>::quiet_NaN()))),
              HasSubstr("is not finite"));
  EXPECT_THAT(RefusalOfFile(Patched("sold.values", 0, "\x02")),
              HasSubstr("sold.values[0]: a document is true, but has no value"));
  EXPECT_THAT(RefusalOfFile(Patched("at.values", 0, Number(INT64_MAX))),
              HasSubstr("at.values[0]: 9223372036854775807 is not in"));
}

TEST(FieldFileTest, ATensorThatIsMissingOrOfAnotherTypeIsNamed) {
  const std::string bytes = SmallFile();
  auto header = ParseSafetensorsHeader(bytes, static_cast<int64_t>(bytes.size()));
  ASSERT_TRUE(header.ok());
  const std::string data = bytes.substr(static_cast<size_t>(header->data_begin));
  for (size_t idx = 0; idx < header->tensors.size(); ++idx) {
    std::vector<SafetensorsTensor> tensors = header->tensors;
    const std::string name = tensors[idx].name;
    tensors[idx].name = "other";
    EXPECT_THAT(RefusalOfFile(FormatSafetensorsHeader(header->metadata, tensors, 64) + data),
                HasSubstr("tensor \"" + name + "\" is missing"));
    tensors[idx].name = name;
    const bool is_bytes = tensors[idx].dtype == "U8";
    tensors[idx].dtype = is_bytes ? "I8" : tensors[idx].dtype == "U32" ? "I32" : "U64";
    EXPECT_THAT(RefusalOfFile(FormatSafetensorsHeader(header->metadata, tensors, 64) + data),
                HasSubstr(name + ": dtype"));
  }
}

TEST(FieldFileTest, TheBytesDependOnTheValuesAlone) {
  const std::vector<Field> fields = *ParseFields("a:keyword,b:keywords");
  EXPECT_EQ(MakeFile(fields, {R"({"a":"x","b":["q","p"]})", R"({"a":"w"})"}),
            MakeFile(fields, {R"({"b":["p","q","p"],"c":1,"a":"x"})", R"({"a":"w","b":[]})"}));
}

}  // namespace
}  // namespace maxsim::collection
