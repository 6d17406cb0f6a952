// Tests the index of the fields of a segment while the segment grows.
#include "server/store/collection/part_fields.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collection/fields/field_reader.h"
#include "collection/filters/canonical.h"
#include "collection/filters/filter_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/values/random_documents.h"

namespace maxsim::store {
namespace {

using collection::Filter;
using collection::RandomFilters;

class PartFieldsTest : public testing::Test {
 protected:
  PartFieldsTest() : seed_(test::TestSeed()), trace_(__FILE__, __LINE__, test::SeedTrace(seed_)), random_(seed_) {}

  void Add(std::string payload) {
    collection::FieldReader reader(RandomFilters::fields());
    document_bytes_ += collection::MaxIndexBytes(**reader.Read(payload));
    meanings_.emplace_back(payload);
    payloads_.push_back(std::move(payload));
  }
  // Adds to the fields all payloads that Add() has appended since the last call.
  void Grow() {
    const auto count = static_cast<int64_t>(payloads_.size()) - fields_->num_documents();
    auto grown = fields_->With(count, [this](uint32_t ordinal) { return std::string_view(payloads_[ordinal]); });
    ASSERT_TRUE(grown.ok()) << grown.status();
    fields_ = *std::move(grown);
  }
  void ExpectMatches(const PartFields& fields, const Filter& filter) const {
    const auto canonical = collection::CanonicalFilter(filter, RandomFilters::fields());
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    const auto found = fields.Evaluate(*canonical);
    ASSERT_TRUE(found.ok()) << found.status();
    std::vector<uint32_t> expected;
    for (uint32_t ordinal = 0; ordinal < fields.num_documents(); ++ordinal) {
      if (meanings_[ordinal].Matches(filter)) expected.push_back(ordinal);
    }
    ASSERT_EQ(found->ToVector(), expected) << collection::FormatFilter(filter);
  }
  void ExpectBounded() const {
    EXPECT_LE(fields_->memory_bytes(),
              PartFields::MaxSegmentBytes(RandomFilters::fields().size(), fields_->num_documents(), document_bytes_));
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  RandomFilters random_;
  std::vector<std::string> payloads_;
  std::vector<collection::FilterMeaning> meanings_;
  int64_t document_bytes_ = 0;
  std::shared_ptr<const PartFields> fields_ = std::make_shared<const PartFields>(RandomFilters::fields());
};

TEST_F(PartFieldsTest, FiltersFindTheDocumentsThatTheyMeanHoweverTheFieldsGrew) {
  ExpectMatches(*fields_, Filter::Not(Filter::Exists("lang")));
  std::shared_ptr<const PartFields> earlier = fields_;
  for (int round = 0; round < 60; ++round) {
    for (uint64_t count = random_.Below(random_.Below(5) == 0 ? 60 : 4); count > 0; --count) Add(random_.Payload());
    Grow();
    ExpectBounded();
    for (int filter = 0; filter < 4; ++filter) {
      ExpectMatches(*fields_, random_.Tree(3));
      ExpectMatches(*earlier, random_.Tree(3));
    }
    if (round % 7 == 0) earlier = fields_;
  }
}

TEST_F(PartFieldsTest, MemoryIsBoundedWhereDocumentsComeOneByOneAndInLargeGroups) {
  for (int document = 0; document < 300; ++document) {
    Add(R"({"m":{"lang":"l)" + std::to_string(document) + R"("},"year":)" + std::to_string(document) + "}");
    Grow();
    ExpectBounded();
  }
  for (const int count : {4095, 1, 4097, 3, 9000}) {
    for (int document = 0; document < count; ++document) Add(R"({"year":)" + std::to_string(document % 50) + "}");
    Grow();
    ExpectBounded();
  }
  ExpectMatches(*fields_, Filter::Equals("year", int64_t{7}));
  ExpectMatches(*fields_, Filter::Equals("lang", std::string("l299")));
}

TEST_F(PartFieldsTest, APayloadThatDoesNotFitChangesNothing) {
  Add("{}");
  Grow();
  const auto wrong = fields_->With(1, [](uint32_t) { return std::string_view(R"({"year":"new"})"); });
  EXPECT_TRUE(absl::IsInvalidArgument(wrong.status())) << wrong.status();
  EXPECT_THAT(std::string(wrong.status().message()), testing::HasSubstr("field \"year\""));
  EXPECT_EQ(fields_->num_documents(), 1);
}

}  // namespace
}  // namespace maxsim::store
