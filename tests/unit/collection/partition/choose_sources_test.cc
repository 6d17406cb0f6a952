// Tests which sources an assembly takes its slots from.
#include "collection/partition/choose_sources.h"

#include <ostream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::collection {

void PrintTo(const SlotShare& share, std::ostream* out) {
  *out << "source " << share.source << ": " << DescribeSlots(share.slots);
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<SlotShare> Chosen(const std::vector<SlotSource>& sources, const SlotRange& wanted) {
  const auto shares = ChooseSources(sources, wanted);
  EXPECT_TRUE(shares.ok()) << shares.status();
  return shares.ok() ? *shares : std::vector<SlotShare>();
}

SlotShare Share(size_t source, int32_t first, int32_t end) { return {source, {first, end}}; }

TEST(ChooseSourcesTest, OneSourceIsEnoughIfItHasAllSlots) {
  EXPECT_THAT(Chosen({{{0, 4096}, 5, 100}}, {0, 4096}), ElementsAre(Share(0, 0, 4096)));
  EXPECT_THAT(Chosen({{{0, 4096}, 5, 100}}, {7, 8}), ElementsAre(Share(0, 7, 8)));
  EXPECT_THAT(Chosen({{{100, 200}, 5, 10}, {{0, 300}, 5, 30}}, {100, 201}), ElementsAre(Share(1, 100, 201)));
}

TEST(ChooseSourcesTest, ASourceOfExactlyTheWantedSlotsIsTakenHoweverLargeItIs) {
  EXPECT_THAT(Chosen({{{0, 50}, 9, 1}, {{50, 100}, 9, 1}, {{0, 100}, 5, 1000}}, {0, 100}),
              ElementsAre(Share(2, 0, 100)));
  EXPECT_THAT(Chosen({{{0, 100}, 5, 0}, {{0, 100}, 6, 1000}}, {0, 100}), ElementsAre(Share(1, 0, 100)))
      << "of two such sources, the one that is further";
}

TEST(ChooseSourcesTest, AsFewBytesAsPossibleAreRead) {
  EXPECT_THAT(Chosen({{{0, 200}, 9, 100}, {{0, 60}, 9, 30}, {{60, 110}, 9, 30}}, {0, 100}),
              ElementsAre(Share(1, 0, 60), Share(2, 60, 100)));
  EXPECT_THAT(Chosen({{{0, 200}, 9, 59}, {{0, 60}, 9, 30}, {{60, 110}, 9, 30}}, {0, 100}),
              ElementsAre(Share(0, 0, 100)));
}

TEST(ChooseSourcesTest, EachSlotIsTakenOnceFromSourcesThatOverlap) {
  EXPECT_THAT(Chosen({{{1000, 3000}, 9, 10}, {{0, 2000}, 9, 10}, {{2500, 4000}, 9, 10}}, {500, 3500}),
              ElementsAre(Share(1, 500, 2000), Share(0, 2000, 3000), Share(2, 3000, 3500)));
}

TEST(ChooseSourcesTest, OfEquallyLargeSourcesThoseThatAreFurtherAreTaken) {
  const std::vector<SlotSource> sources = {{{0, 50}, 5, 10}, {{50, 100}, 9, 10}, {{0, 50}, 8, 10}, {{50, 100}, 7, 10}};
  EXPECT_THAT(Chosen(sources, {0, 100}), ElementsAre(Share(2, 0, 50), Share(1, 50, 100)));
}

TEST(ChooseSourcesTest, OfEqualSourcesTheFirstIsTaken) {
  EXPECT_THAT(Chosen({{{0, 60}, 5, 10}, {{0, 60}, 5, 10}, {{50, 100}, 5, 10}, {{60, 100}, 5, 10}}, {0, 100}),
              ElementsAre(Share(0, 0, 60), Share(2, 60, 100)));
  EXPECT_THAT(Chosen({{{0, 50}, 5, 0}, {{0, 99}, 5, 0}, {{50, 99}, 5, 0}}, {0, 99}), ElementsAre(Share(1, 0, 99)))
      << "empty sources: fewer are better";
}

TEST(ChooseSourcesTest, AWholeCollectionIsNotCombinedWithPartitions) {
  EXPECT_THAT(Chosen({{{0, 4096}, 9, 100}, {{0, 2000}, 9, 1}}, {0, 3000}), ElementsAre(Share(0, 0, 3000)));
  EXPECT_THAT(Chosen({{{0, 4096}, 9, 100}, {{0, 2000}, 9, 1}, {{1500, 3100}, 9, 1}}, {0, 3000}),
              ElementsAre(Share(1, 0, 2000), Share(2, 2000, 3000)));
}

TEST(ChooseSourcesTest, SlotsThatNoSourceHasAreNamed) {
  const auto missing = [](const std::vector<SlotSource>& sources) {
    const absl::Status status = ChooseSources(sources, {100, 200}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(missing({}), HasSubstr("none of the 0 sources has slots 100 .. 199"));
  EXPECT_THAT(missing({{{0, 150}, 1, 1}, {{151, 300}, 1, 1}}), HasSubstr("none of the 2 sources has slots 150 .. 150"));
  EXPECT_THAT(missing({{{0, 199}, 1, 1}}), HasSubstr("has slots 199 .. 199"));
  EXPECT_THAT(missing({{{101, 4096}, 1, 1}}), HasSubstr("has slots 100 .. 100"));
  EXPECT_THAT(missing({{{0, 100}, 1, 1}, {{200, 300}, 1, 1}}), HasSubstr("has slots 100 .. 199"));
}

}  // namespace
}  // namespace maxsim::collection
