#include "tools/maxsimctl/context/input_files.h"

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::ctl {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class QuerySetTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  template <typename T>
  std::string WriteNpy(const std::string& name, const std::string& descr, const std::string& shape,
                       const std::vector<T>& values) {
    std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize((header.size() + 10 + 1 + 63) / 64 * 64 - 10 - 1, ' ');
    header.push_back('\n');
    const std::string path = folder_ + "/" + name;
    std::ofstream file(path, std::ios::binary);
    file << std::string("\x93NUMPY\x01\x00", 8) << static_cast<char>(header.size() & 0xff)
         << static_cast<char>(header.size() >> 8) << header;
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
    return path;
  }
  std::string Error(const std::string& tokens, const std::string& lengths = "") {
    return std::string(QuerySet::Read(tokens, lengths).status().message());
  }

  const std::string folder_ = ::testing::TempDir() + "/ctl_inputs_" + std::to_string(getpid());
};

TEST_F(QuerySetTest, OneQueryIsAMatrix) {
  const auto set = QuerySet::Read(WriteNpy<float>("q.npy", "<f4", "(2, 3)", {1, 2, 3, 4, 5, 6}), "");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->size(), 1);
  const v1::TokenMatrix message = QueryTokens(*set, 0);
  EXPECT_EQ(message.num_tokens(), 2);
  EXPECT_EQ(message.dim(), 3);
  EXPECT_EQ(message.dtype(), v1::DATA_TYPE_F32);
  float last;
  std::memcpy(&last, message.data().data() + 20, sizeof(last));
  EXPECT_EQ(last, 6);
}

TEST_F(QuerySetTest, LengthsCutPackedQueries) {
  const std::string tokens = WriteNpy<uint16_t>("q.npy", "<f2", "(4, 2)", {0, 1, 2, 3, 4, 5, 6, 7});
  const auto set = QuerySet::Read(tokens, WriteNpy<int32_t>("l.npy", "<i4", "(2,)", {1, 3}));
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->size(), 2);
  EXPECT_EQ(set->num_tokens(0), 1);
  EXPECT_EQ(set->num_tokens(1), 3);
  EXPECT_EQ(set->type(), ScalarType::kF16);
  EXPECT_EQ(set->bytes(1), std::string("\2\0\3\0\4\0\5\0\6\0\7\0", 12));
  EXPECT_TRUE(set->CheckIndex(1).ok());
  EXPECT_THAT(std::string(set->CheckIndex(2).message()), HasSubstr("--query-index is 2; there are 2 queries"));
  EXPECT_FALSE(set->CheckIndex(-1).ok());
}

TEST_F(QuerySetTest, ThreeDimensionsAreQueriesOfOneLength) {
  const auto set = QuerySet::Read(WriteNpy<float>("q.npy", "<f4", "(2, 1, 3)", {1, 2, 3, 4, 5, 6}), "");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->size(), 2);
  EXPECT_EQ(set->num_tokens(1), 1);
}

TEST_F(QuerySetTest, DoublesBecomeFloatsAndRoundToStorage) {
  const auto set = QuerySet::Read(WriteNpy<double>("q.npy", "<f8", "(1, 2)", {0.1, 1.0}), "");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->type(), ScalarType::kF32);
  EXPECT_EQ(set->Rounded(0, ScalarType::kF16), std::string("\x66\x2e\x00\x3c", 4));  // 0.1 is 0x2e66 in binary16
  EXPECT_EQ(set->Rounded(0, ScalarType::kF32), std::string(set->bytes(0)));
}

TEST_F(QuerySetTest, ErrorsNameTheFileAndTheNumbers) {
  const std::string tokens = WriteNpy<float>("q.npy", "<f4", "(4, 2)", std::vector<float>(8));
  EXPECT_THAT(Error("/no/such.npy"), HasSubstr("/no/such.npy"));
  EXPECT_THAT(Error(WriteNpy<int32_t>("i.npy", "<i4", "(1, 2)", {1, 2})), AllOf(HasSubstr("i.npy"), HasSubstr("i32")));
  EXPECT_THAT(Error(WriteNpy<float>("v.npy", "<f4", "(2,)", {1, 2})), HasSubstr("[2]"));
  EXPECT_THAT(Error(WriteNpy<float>("e.npy", "<f4", "(0, 8)", {})), HasSubstr("empty"));
  EXPECT_THAT(Error(tokens, WriteNpy<int32_t>("l.npy", "<i4", "(2,)", {1, 2})), HasSubstr("add up to 3"));
  EXPECT_THAT(Error(tokens, WriteNpy<int32_t>("l.npy", "<i4", "(2,)", {4, 1})), HasSubstr("query 1 has length 1"));
  EXPECT_THAT(Error(tokens, WriteNpy<int64_t>("l.npy", "<i8", "(2,)", {INT64_MAX, 1})), HasSubstr("query 0"));
  EXPECT_THAT(Error(tokens, WriteNpy<int32_t>("l.npy", "<i4", "(2,)", {0, 4})), HasSubstr("length 0"));
  EXPECT_THAT(Error(WriteNpy<float>("long.npy", "<f4", "(5000, 1)", std::vector<float>(5000))),
              AllOf(HasSubstr("5000"), HasSubstr("4096"), HasSubstr("--query-lengths")));
}

TEST_F(QuerySetTest, WeightsMustFitTheQuery) {
  const std::string path = WriteNpy<float>("w.npy", "<f4", "(2,)", {0.5f, 2});
  EXPECT_THAT(*ReadWeights(path, 2), ElementsAre(0.5f, 2.0f));
  EXPECT_THAT(std::string(ReadWeights(path, 3).status().message()), AllOf(HasSubstr("w.npy"), HasSubstr("[3]")));
}

TEST(IdsTest, ALineEach) {
  EXPECT_THAT(ParseIdLines("a\nb c\r\n\n  \n d\nlast"), ElementsAre("a", "b c", " d", "last"));
  EXPECT_THAT(ParseIdLines(""), IsEmpty());
}

TEST(IdsTest, BetweenCommas) {
  EXPECT_THAT(ParseIdList("a, b ,,c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(ParseIdList(""), IsEmpty());
}

TEST(IdsTest, IntegersWhereTheCollectionHasThem) {
  const std::vector<std::string> ids = {"12", " -3", "9223372036854775807"};
  EXPECT_THAT(MakeCandidates(ids, v1::ID_TYPE_INT64)->int_ids().ids(), ElementsAre(12, -3, INT64_MAX));
  EXPECT_THAT(MakeCandidates(ids, v1::ID_TYPE_STRING)->string_ids().ids(),
              ElementsAre("12", " -3", "9223372036854775807"));
  for (const char* bad : {"x", "1.5", "9223372036854775808", "0x10", ""}) {
    const auto candidates = MakeCandidates({"1", bad}, v1::ID_TYPE_INT64);
    EXPECT_THAT(std::string(candidates.status().message()), AllOf(HasSubstr("candidate 2"), HasSubstr("64-bit")));
  }
  EXPECT_FALSE(MakeCandidates({}, v1::ID_TYPE_STRING).ok());
}

TEST(QueryTextsTest, ReadsIdsTextsAndTokens) {
  const auto texts =
      ParseQueryTexts("{\"id\": \"q1\", \"text\": \"a b\", \"tokens\": [\"a\", \"##b\"]}\n\n{\"id\": 7}", "f");
  ASSERT_TRUE(texts.ok()) << texts.status();
  ASSERT_EQ(texts->size(), 2);
  EXPECT_EQ((*texts)[0].text, "a b");
  EXPECT_THAT((*texts)[0].tokens, ElementsAre("a", "##b"));
  EXPECT_EQ((*texts)[1].id, "7");
  EXPECT_THAT((*texts)[1].tokens, IsEmpty());
}

TEST(QueryTextsTest, ErrorsNameTheLine) {
  EXPECT_THAT(std::string(ParseQueryTexts("{\"id\": 1}\n{", "f.jsonl").status().message()), HasSubstr("f.jsonl:2"));
  EXPECT_THAT(std::string(ParseQueryTexts("{\"text\": \"x\"}", "f").status().message()), HasSubstr("\"id\""));
  EXPECT_THAT(std::string(ParseQueryTexts("[1]", "f").status().message()), HasSubstr("JSON object"));
  EXPECT_EQ(ParseQueryTexts("{\"id\": 1}\n{\"id\": 2, \"text\": \"a\", \"text\": \"b\"}", "f.jsonl").status().message(),
            "f.jsonl:2: key \"text\" appears twice in one object");
}

TEST(PayloadTokensTest, OnlyAnArrayOfStrings) {
  EXPECT_THAT(PayloadTokens(R"({"tokens": ["x", "y"]})"), ElementsAre("x", "y"));
  for (const char* payload : {"", "{", "[]", "{}", R"({"tokens": "x"})", R"({"tokens": ["x", 1]})"}) {
    EXPECT_THAT(PayloadTokens(payload), IsEmpty()) << payload;
  }
}

TEST(JudgementsTest, ThreeOrFourFields) {
  const auto judgements = ParseJudgements("q1\td1\t3\r\nq1 0 d2 1\n\nq2  d1   -1\n", "f");
  ASSERT_TRUE(judgements.ok()) << judgements.status();
  EXPECT_EQ(judgements->at("q1").at("d1"), 3);
  EXPECT_EQ(judgements->at("q1").at("d2"), 1);
  EXPECT_EQ(judgements->at("q2").at("d1"), -1);
}

TEST(JudgementsTest, ALineOfColumnNamesIsSkippedAtTheTopOnly) {
  for (const char* header : {"query-id\tcorpus-id\tscore", "query_id iter doc_id relevance", "QID\tPID\tGRADE\r"}) {
    const auto judgements = ParseJudgements(std::string(header) + "\nq1\td1\t3\n", "f");
    ASSERT_TRUE(judgements.ok()) << judgements.status();
    EXPECT_EQ(judgements->size(), 1u) << header;
    EXPECT_EQ(judgements->at("q1").at("d1"), 3);
  }
  EXPECT_THAT(std::string(ParseJudgements("q1 d1 x\n", "f").status().message()), HasSubstr("f:1")) << "no header";
  EXPECT_THAT(std::string(ParseJudgements("q1 d1 1\nquery-id corpus-id score\n", "f").status().message()),
              HasSubstr("f:2"));
  EXPECT_EQ(ParseJudgements("query d1 2\n", "f")->at("query").at("d1"), 2) << "a query of that name";
}

TEST(JudgementsTest, ErrorsNameTheLine) {
  for (const char* line : {"q d", "q d x", "q 0 d 1 2", "q d nan", "q d inf"}) {
    EXPECT_THAT(std::string(ParseJudgements(std::string("q d 1\n") + line, "f").status().message()), HasSubstr("f:2"))
        << line;
  }
}

}  // namespace
}  // namespace maxsim::ctl
