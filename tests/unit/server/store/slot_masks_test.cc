// Tests which documents of a part have ids in given slots, for shards and for segments that grow, and together with
// filters over fields. Compares with the slot of each id.
#include "server/store/collection/slot_masks.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collection/filters/filter_text.h"
#include "gtest/gtest.h"
#include "server/store/collection/matching_documents.h"
#include "server/store/collection/part.h"
#include "server/store/collection/segment.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/filter_meaning.h"
#include "tests/support/collection/random_filters.h"
#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using collection::Filter;
using collection::IdType;
using collection::LogRecord;
using collection::RandomFilters;
using collection::SlotRange;

// Returns the ordinals below `end` whose slots are in a range.
std::vector<uint32_t> OrdinalsIn(uint32_t end, const std::vector<int32_t>& slots, const SlotRange& range) {
  std::vector<uint32_t> ordinals;
  for (uint32_t ordinal = 0; ordinal < end; ++ordinal) {
    if (range.contains(slots[ordinal])) ordinals.push_back(ordinal);
  }
  return ordinals;
}

struct SlotMasksCase {
  const char* name = "";
  IdType id_type = IdType::kString;
  bool with_fields = false;
};

// A collection of several shards.
class SlotsOfShardsTest : public testing::TestWithParam<SlotMasksCase> {
 protected:
  static constexpr int64_t kNumDocuments = 400;

  SlotsOfShardsTest() : seed_(test::TestSeed()), trace_(__FILE__, __LINE__, test::SeedTrace(seed_)), random_(seed_) {
    test::CorpusOptions options;
    options.id_type = GetParam().id_type;
    options.max_shard_bytes = 20'000;
    for (int64_t idx = 0; idx < kNumDocuments; ++idx) {
      options.payload_texts.push_back(random_.Payload());
      const int32_t slot = options.id_type == IdType::kInt64 ? collection::SlotOf(test::CorpusIntId(idx))
                                                             : collection::SlotOf(test::CorpusId(options, idx));
      meanings_.emplace_back(options.payload_texts.back(), slot);
    }
    if (GetParam().with_fields) options.fields = RandomFilters::fields();
    test::BuildCorpus(folder_.path(), documents_, options);
    collection_ = *store_.Load("corpus", folder_.path(), Residency::kAuto);
    EXPECT_GE(collection_->num_parts(), 3u);
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  RandomFilters random_;
  const test::RandomDocuments documents_ = test::SmallDocuments(3, kNumDocuments);
  std::vector<collection::FilterMeaning> meanings_;
  const test::TemporaryFolder folder_;
  test::FakeBackend cpu_;
  CollectionStore store_{&cpu_, {.memory_reserve_bytes = 0}};
  std::shared_ptr<const Collection> collection_;
};

TEST_P(SlotsOfShardsTest, FiltersFindTheDocumentsThatTheyMean) {
  random_.UseSlots(GetParam().with_fields ? 2 : 1);
  for (int round = 0; round < 100; ++round) {
    const Filter filter = random_.Tree(1 + round % 4);
    SCOPED_TRACE(collection::FormatFilter(filter));
    const auto found = collection_->FindMatching(filter);
    ASSERT_TRUE(found.ok()) << found.status();
    uint64_t num_documents = 0;
    uint64_t num_tokens = 0;
    for (uint64_t ordinal = 0; ordinal < static_cast<uint64_t>(kNumDocuments); ++ordinal) {
      const bool matches = meanings_[ordinal].Matches(filter);
      ASSERT_EQ((*found)->Contains(collection_->Locate(ordinal)), matches) << ordinal;
      if (!matches) continue;
      ++num_documents;
      num_tokens += static_cast<uint64_t>(documents_.length(static_cast<int64_t>(ordinal)));
    }
    EXPECT_EQ((*found)->num_documents(), num_documents);
    EXPECT_EQ((*found)->num_tokens(), num_tokens);
  }
}

TEST_P(SlotsOfShardsTest, MasksOfTheLastTwoRangesAreKeptAndCounted) {
  const Part& part = collection_->part(0);
  const size_t before = collection_->index_bytes();
  int num_blocks = 0;
  const StopCheck check = [&] {
    ++num_blocks;
    return absl::OkStatus();
  };
  const auto is_known = [&](const SlotRange& slots) {
    num_blocks = 0;
    EXPECT_TRUE(part.slot_masks->Find(part, slots, check).ok());
    return num_blocks == 0;
  };
  EXPECT_FALSE(is_known({0, 100}));
  EXPECT_TRUE(is_known({0, 100}));
  EXPECT_FALSE(is_known({0, 101}));
  EXPECT_TRUE(is_known({0, 100}));
  EXPECT_FALSE(is_known({1, 100}));
  EXPECT_TRUE(is_known({0, 100})) << "it was asked for after the other one";
  EXPECT_FALSE(is_known({0, 101}));
  const size_t added = collection_->index_bytes() - before;
  EXPECT_EQ(added, part.slot_masks->memory_bytes());
  EXPECT_GE(added, static_cast<size_t>(part.num_documents()) * SlotMasks::kMaxRanges / 8);
}

TEST_P(SlotsOfShardsTest, AStopEndsTheSearchAndIsNotRemembered) {
  const StopCheck stop = [] { return absl::CancelledError("enough"); };
  EXPECT_EQ(collection_->FindMatching(Filter::InSlots({0, 9}), stop).status(), absl::CancelledError("enough"));
  EXPECT_TRUE(collection_->FindMatching(Filter::InSlots({0, 9})).ok());
}

INSTANTIATE_TEST_SUITE_P(All, SlotsOfShardsTest,
                         testing::Values(SlotMasksCase{"strings"}, SlotMasksCase{"ints", IdType::kInt64},
                                         SlotMasksCase{"strings_and_fields", IdType::kString, true},
                                         SlotMasksCase{"ints_and_fields", IdType::kInt64, true}),
                         [](const auto& one) { return std::string(one.param.name); });

class SlotsOfSegmentsTest : public testing::TestWithParam<IdType> {
 protected:
  void Make(int64_t max_documents) {
    const Segment::Shape shape{
        .tokens = {.type = ScalarType::kF16, .dim = 8, .max_documents = max_documents, .max_tokens = max_documents},
        .id_type = GetParam(),
        .max_text_bytes = 1 << 24,
        .tier = Residency::kHost};
    auto memory = backend_.CreateAppendable(shape.tokens);
    ASSERT_TRUE(memory.ok()) << memory.status();
    segment_ =
        std::make_shared<Segment>(shape, std::vector<Segment::Memory>{{.device = 0, .documents = *memory}}, nullptr, 0);
  }
  void Append(int count) {
    std::vector<std::string> ids;
    ids.reserve(static_cast<size_t>(count));
    std::vector<LogRecord> records;
    for (int idx = 0; idx < count; ++idx) {
      const auto number = static_cast<int64_t>(slots_.size());
      ids.push_back("document-" + std::to_string(number));
      slots_.push_back(GetParam() == IdType::kInt64 ? collection::SlotOf(number) : collection::SlotOf(ids.back()));
      records.push_back({.kind = LogRecord::Kind::kUpsert,
                         .sequence = slots_.size(),
                         .string_id = ids.back(),
                         .int_id = number,
                         .num_tokens = 1,
                         .rows = rows_});
    }
    uint32_t lost = 0;
    ASSERT_TRUE(segment_->Append(records, &lost).ok());
  }

  const std::string rows_ = std::string(16, 'r');
  test::FakeBackend backend_;
  std::shared_ptr<Segment> segment_;
  std::vector<int32_t> slots_;  // of the documents
};

TEST_P(SlotsOfSegmentsTest, EverySnapshotOfAGrowingSegmentHasItsDocuments) {
  Make(300);
  const StopCheck check;
  std::vector<Part> parts;
  for (const int count : {1, 62, 1, 1, 63, 100}) {
    ASSERT_NO_FATAL_FAILURE(Append(count));
    parts.push_back(segment_->MakePart(0));
    // Looks at the last, the first and a middle snapshot, so that a mask may have been made for more or fewer
    // documents. There are three ranges, one more than SlotMasks keeps, so that masks are also dropped and made again.
    for (const Part* const part : {&parts.back(), &parts.front(), &parts[parts.size() / 2]}) {
      for (const SlotRange& range : {SlotRange{0, 2048}, SlotRange{100, 3000}, SlotRange{4000, 4096}}) {
        const auto num_documents = static_cast<uint32_t>(part->num_documents());
        SlotReader reader(*part, check);
        const auto found = reader.Find(range, 0, num_documents);
        ASSERT_TRUE(found.ok()) << found.status();
        ASSERT_EQ(found->ToVector(), OrdinalsIn(num_documents, slots_, range)) << num_documents;
      }
    }
  }
}

TEST_P(SlotsOfSegmentsTest, AnyRunOfDocumentsCanBeRead) {
  Make(300);
  ASSERT_NO_FATAL_FAILURE(Append(200));
  Part part = segment_->MakePart(0);
  const StopCheck check;
  const SlotRange range{0, 2000};
  for (const bool remembers : {true, false}) {
    if (!remembers) part.slot_masks = nullptr;
    SlotReader reader(part, check);
    for (const uint32_t first : {0u, 1u, 63u, 64u, 65u, 127u, 128u, 199u}) {
      for (uint32_t count = 0; first + count <= 200; ++count) {
        std::vector<uint32_t> expected;
        for (const uint32_t ordinal : OrdinalsIn(first + count, slots_, range)) {
          if (ordinal >= first) expected.push_back(ordinal - first);
        }
        const auto found = reader.Find(range, first, count);
        ASSERT_TRUE(found.ok()) << found.status();
        ASSERT_EQ(found->ToVector(), expected) << first << " " << count;
      }
    }
  }
}

TEST_P(SlotsOfSegmentsTest, TheCheckIsCalledNowAndThen) {
  constexpr int kBlock = 65'536;
  Make(kBlock + 1);
  ASSERT_NO_FATAL_FAILURE(Append(kBlock + 1));
  const Part part = segment_->MakePart(0);
  int num_checks = 0;
  const StopCheck stop = [&] { return ++num_checks < 2 ? absl::OkStatus() : absl::CancelledError("enough"); };
  EXPECT_EQ(part.slot_masks->Find(part, {0, 9}, stop).status(), absl::CancelledError("enough"));
  EXPECT_EQ(num_checks, 2);
  num_checks = 0;
  const StopCheck count = [&] {
    ++num_checks;
    return absl::OkStatus();
  };
  const auto mask = part.slot_masks->Find(part, {0, 9}, count);
  EXPECT_EQ(num_checks, 1) << "the first ids are not hashed again";
  ASSERT_TRUE(mask.ok()) << mask.status();
  for (const int ordinal : {0, kBlock - 1, kBlock}) {
    const auto idx = static_cast<size_t>(ordinal);
    EXPECT_EQ(((**mask)[idx / 64] >> (idx % 64) & 1) != 0, slots_[idx] < 9) << ordinal;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SlotsOfSegmentsTest, testing::Values(IdType::kString, IdType::kInt64),
                         [](const auto& one) { return std::string(collection::Name(one.param)); });

}  // namespace
}  // namespace maxsim::store
