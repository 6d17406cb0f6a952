// Tests the memory that a field index takes, and the counts of documents that have a term.
#include "collection/filters/field_index.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collection/fields/field_file.h"
#include "collection/fields/field_file_maker.h"
#include "collection/fields/field_reader.h"
#include "gtest/gtest.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"

namespace maxsim::collection {
namespace {

// Returns the payload of one document. Each `shape` is a kind of collection whose index size is hard to bound.
std::string PayloadOf(int shape, int document, RandomFilters& random) {
  switch (shape) {
    case 0:
      return random.Payload();
    case 1:  // every value is another one
      return absl::StrCat(R"({"m":{"lang":"l)", document, R"(","tags":["t)", document, R"(","u)", document,
                          R"("],"sold":)", document % 2 == 0 ? "true" : "false", R"(},"year":)", document,
                          R"(,"price":)", document, R"(.5,"at":"2026-01-02T03:04:05.)", document, "Z\"}");
    case 2:  // all documents agree
      return R"({"m":{"lang":"en","tags":["a"],"sold":true},"year":1,"price":1,"at":"2026-01-02T03:04:05Z"})";
    case 3:  // terms that are just frequent, spread evenly
      return absl::StrCat(R"({"m":{"lang":"l)", document % 250, R"(","tags":["t)", document % 256, "\"]}}");
    default:  // no document has a value
      return "{\"other\":1}";
  }
}

TEST(FieldIndexTest, MemoryStaysBelowWhatThePlanCanKnow) {
  const uint64_t seed = test::TestSeed();
  SCOPED_TRACE(test::SeedTrace(seed));
  RandomFilters random(seed);
  for (int shape = 0; shape < 5; ++shape) {
    for (const int num_documents : {1, 100, 5'000, 66'000}) {
      if (shape == 0 && num_documents > 5'000) continue;  // random payloads take long
      if (test::kSanitized && num_documents > (shape == 3 ? 5'000 : 100)) continue;
      SCOPED_TRACE(absl::StrCat("shape ", shape, ", ", num_documents, " documents"));
      FieldFileMaker maker(RandomFilters::fields());
      FieldReader reader(RandomFilters::fields());
      int64_t of_documents = 0;
      for (int document = 0; document < num_documents; ++document) {
        const std::string payload = PayloadOf(shape, document, random);
        ASSERT_TRUE(maker.Add(payload).ok());
        const auto values = reader.Read(payload);
        ASSERT_TRUE(values.ok()) << values.status();
        of_documents += MaxIndexBytes(**values);
      }
      const std::string bytes = maker.Make();
      const auto columns = ParseFieldFile(bytes, RandomFilters::fields(), num_documents);
      ASSERT_TRUE(columns.ok()) << columns.status();
      const ShardIndex index(RandomFilters::fields(), *columns, num_documents);
      EXPECT_GT(index.memory_bytes(), 0);
      EXPECT_LE(index.memory_bytes(),
                MaxIndexBytes(RandomFilters::fields(), num_documents, static_cast<int64_t>(bytes.size())));
      const auto num_fields = static_cast<int64_t>(RandomFilters::fields().size());
      EXPECT_LE(index.memory_bytes(), num_fields * kMaxIndexBytesPerField + of_documents);
    }
  }
}

// Only one document in 16 has a value, but the index's masks have a bit for every document. The bound on the index's
// memory, which counts only documents with a value, must still hold.
TEST(FieldIndexTest, PrefixesAreWithinTheBoundOfTheDocuments) {
  const std::vector<Field> fields = {{"year", FieldKind::kInteger, "year"}};
  constexpr int64_t kDocuments = 65'536;
  FieldFileMaker maker(fields);
  for (int64_t document = 0; document < kDocuments; ++document) {
    ASSERT_TRUE(maker.Add(document % 16 == 0 ? R"({"year":2020})" : "{}").ok());
  }
  const std::string bytes = maker.Make();
  const auto columns = ParseFieldFile(bytes, fields, kDocuments);
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_LE(ShardIndex(fields, *columns, kDocuments).memory_bytes(),
            kMaxIndexBytesPerField + kDocuments / 16 * MaxIndexBytes({FieldValue(int64_t{2020})}));
}

// The index stores a rare term as a list and a frequent term as a bitmap. Both must be counted correctly.
TEST(FieldIndexTest, DocumentsOfATermAreCountedInAMask) {
  const std::vector<Field> fields = {{"tags", FieldKind::kKeywords, "tags"}};
  constexpr uint32_t kDocuments = 3'000;
  constexpr uint32_t kFirst = 77;  // not a multiple of 64, so that the index begins inside a word of the mask
  const auto has_tag = [](const std::string& tag, uint32_t document) {
    if (tag == "all") return true;
    if (tag == "half") return document % 2 == 0;
    return tag == "rare" ? document % 1000 == 0 : document == kDocuments - 1;
  };
  const std::vector<std::string> tags = {"all", "half", "last", "rare"};
  FieldFileMaker maker(fields);
  for (uint32_t document = 0; document < kDocuments; ++document) {
    std::string payload;
    for (const std::string& tag : tags) {
      if (has_tag(tag, document)) absl::StrAppend(&payload, payload.empty() ? "" : ",", "\"", tag, "\"");
    }
    ASSERT_TRUE(maker.Add(absl::StrCat(R"({"tags":[)", payload, "]}")).ok());
  }
  const std::string bytes = maker.Make();
  const auto columns = ParseFieldFile(bytes, fields, kDocuments);
  ASSERT_TRUE(columns.ok()) << columns.status();
  const ShardIndex index(fields, *columns, kDocuments);
  const TermLists& terms = index.Find("tags")->terms();
  ASSERT_EQ(terms.size(), tags.size());
  for (const uint32_t step : {1u, 3u, 64u, kDocuments}) {
    std::vector<uint64_t> mask((kFirst + kDocuments + 63) / 64);
    for (uint32_t document = 0; document < kDocuments; document += step) {
      mask[(kFirst + document) / 64] |= uint64_t{1} << ((kFirst + document) % 64);
    }
    for (size_t idx = 0; idx < tags.size(); ++idx) {
      EXPECT_EQ(terms.term(idx), tags[idx]);
      uint64_t expected = 0;
      for (uint32_t document = 0; document < kDocuments; document += step) expected += has_tag(tags[idx], document);
      EXPECT_EQ(terms.CountIn(idx, mask, kFirst), expected) << tags[idx] << " " << step;
    }
  }
}

TEST(FieldIndexTest, ThePlanOfASmallShardIsAboutItsFile) {
  const auto num_fields = static_cast<int64_t>(RandomFilters::fields().size());
  FieldFileMaker maker(RandomFilters::fields());
  ASSERT_TRUE(maker.Add("{}").ok());
  const auto file_bytes = static_cast<int64_t>(maker.Make().size());
  EXPECT_LE(MaxIndexBytes(RandomFilters::fields(), 1, file_bytes),
            2 * file_bytes + (num_fields + 1) * (kMaxIndexBytesPerField + 256));
}

}  // namespace
}  // namespace maxsim::collection
