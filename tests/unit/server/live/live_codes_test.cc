// Tests the codes (compressed vectors) of a live collection: a write computes them, a compaction keeps them, and a
// start computes those of the log's writes again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collection/build/encode.h"
#include "collection/inspection/verifier.h"
#include "collection/manifest.h"
#include "kernels/codes/codes.h"
#include "server/store/collection/segment.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

class LiveCodesTest : public LiveTest, public testing::WithParamInterface<collection::CodesFormat> {
 protected:
  LiveCodesTest() {
    codes_ = GetParam();
    Create();
    Open();
  }

  void WriteSome(int64_t count, int64_t first = 0) {
    for (int64_t n = first; n < first + count; ++n) {
      MustWrite(List(Upsert(absl::StrCat("d", n), n)));
      expected_[absl::StrCat("d", n)] = n;
    }
  }
  void Remove(const std::string& id) {
    MustWrite(List(Delete(id)));
    expected_.erase(id);
  }
  // Checks that the collection has the expected documents, with their codes, and that scans read this many planes.
  void Expect(int planes) {
    const auto collection = Find();
    EXPECT_EQ(Contents(*collection), expected_);
    EXPECT_EQ(collection->code_planes(), planes);
  }
  // Checks the files of the generation that is served.
  void ExpectNoProblems() {
    const auto tombstones = live().TombstonesOf(Find()->manifest());
    ASSERT_TRUE(tombstones.ok()) << tombstones.status();
    const auto report = collection::VerifyCollection(path_, nullptr, &*tombstones);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->num_problems, 0) << (report->problems.empty() ? "" : report->problems.front());
  }

  Documents expected_;
};

TEST_P(LiveCodesTest, EachWriteIsThereWithItsCodes) {
  Expect(GetParam().planes);
  for (int64_t n = 0; n < 30; ++n) {
    WriteSome(1, n);
    Expect(GetParam().planes);
  }
  MustWrite(List(Upsert("d3", 100), Upsert("d40", 101), Delete("d5"), Upsert("d3", 102)));
  expected_["d3"] = 102;
  expected_["d40"] = 101;
  expected_.erase("d5");
  Expect(GetParam().planes);
}

TEST_P(LiveCodesTest, CompactionsWriteThemAndStartsMakeThemOfTheLog) {
  WriteSome(40);
  Remove("d7");
  Reopen();
  Expect(GetParam().planes);
  MustCompact();
  Expect(GetParam().planes);
  EXPECT_EQ(live().state().num_segments, 0u);
  for (const collection::ShardEntry& entry : Find()->manifest().shards) {
    EXPECT_EQ(entry.code_files.size(), collection::NumCodeFiles(GetParam().planes));
  }
  WriteSome(30, 30);
  Remove("d2");
  Expect(GetParam().planes);
  Reopen();
  Expect(GetParam().planes);
  MustCompact();
  Expect(GetParam().planes);
  ExpectNoProblems();
}

TEST_P(LiveCodesTest, WritesWhileACompactionRunsAreInSegmentsThatBothGenerationsShare) {
  WriteSome(20);
  MustCompact();
  WriteSome(20, 20);
  const auto before = Find();
  bool changed = false;
  const absl::Status status = store_->Reload("c", &changed).status();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FALSE(changed);
  // Publishes a generation (version) with the same shards. It must share the segments and codes of the one before.
  collection::Manifest next = before->manifest();
  ++next.generation;
  ASSERT_TRUE(collection::PublishManifest(next, path_).ok());
  ASSERT_TRUE(store_->Reload("c", &changed).ok());
  EXPECT_TRUE(changed);
  const auto after = Find();
  ASSERT_EQ(after->num_parts(), before->num_parts());
  for (size_t idx = 0; idx < after->num_parts(); ++idx) {
    EXPECT_EQ(after->part(idx).CodesOn(0) == before->part(idx).CodesOn(0), true) << idx;
    EXPECT_EQ(after->part(idx).segment, before->part(idx).segment);
  }
  Expect(GetParam().planes);
}

TEST_P(LiveCodesTest, AGenerationWithOtherCodesGetsSegmentsWithItsOwn) {
  WriteSome(20);
  const auto before = Find();
  collection::Manifest next = before->manifest();
  ASSERT_TRUE(next.shards.empty());
  ++next.generation;
  next.codes->factors = !next.codes->factors;
  ASSERT_TRUE(collection::PublishManifest(next, path_).ok());
  ASSERT_TRUE(store_->Reload("c", nullptr).ok());
  Expect(GetParam().planes);
  EXPECT_EQ(Find()->part(0).CodesOn(0)->shape().factors, !GetParam().factors);
  EXPECT_NE(Find()->part(0).segment, before->part(0).segment);
  WriteSome(5, 20);
  Expect(GetParam().planes);
  // A generation (version) without codes still shares the segments. As it has no codes, searches do not scan.
  next = Find()->manifest();
  ++next.generation;
  next.codes.reset();
  ASSERT_TRUE(collection::PublishManifest(next, path_).ok());
  const auto coded = Find();
  ASSERT_TRUE(store_->Reload("c", nullptr).ok());
  EXPECT_EQ(Find()->part(0).segment, coded->part(0).segment);
  EXPECT_EQ(Find()->code_planes(), 0);
}

TEST_P(LiveCodesTest, AsManyPlanesAreInMemoryAsTheConfigurationAllows) {
  WriteSome(10);
  MustCompact();
  WriteSome(10, 10);
  for (const int planes : {2, 1, 0, 4}) {
    live_.reset();
    Close();
    store_options_.max_code_planes = planes;
    Open();
    WriteSome(1, 20 + planes);
    Expect(std::min(planes, GetParam().planes));
  }
  MustCompact();
  Expect(GetParam().planes);
}

TEST_P(LiveCodesTest, SegmentsCountTheMemoryOfTheirCodes) {
  WriteSome(3);
  const uint64_t coded = Find()->part(0).segment->reserved_bytes();
  live_.reset();
  Close();
  store_options_.max_code_planes = 0;
  Open();
  const store::Segment& segment = *Find()->part(0).segment;
  const AppendableShape& tokens = segment.shape().tokens;
  EXPECT_EQ(coded,
            segment.reserved_bytes() + CodeArrayBytes(collection::CodeShapeOf(Find()->manifest()), GetParam().planes,
                                                      tokens.max_documents, tokens.max_tokens));
  EXPECT_EQ(Find()->code_planes(), 0);
}

TEST_P(LiveCodesTest, SnapshotsHaveThem) {
  WriteSome(20);
  MustCompact();
  WriteSome(20, 10);
  const std::string copy = folder_ / "copy";
  const auto sequence = live().SnapshotTo(copy, nullptr);
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  WriteSome(5, 90);
  const absl::Status status = TryOpen(copy);
  ASSERT_TRUE(status.ok()) << status;
  for (int64_t n = 90; n < 95; ++n) expected_.erase(absl::StrCat("d", n));
  Expect(GetParam().planes);
}

INSTANTIATE_TEST_SUITE_P(Formats, LiveCodesTest,
                         testing::Values(collection::CodesFormat{4, false, 0}, collection::CodesFormat{1, false, 7},
                                         collection::CodesFormat{2, true, 0}),
                         [](const auto& param_info) { return absl::StrCat("Planes", param_info.param.planes); });

class EncodedLiveTest : public LiveTest {};

// Adds codes to a live collection that no server has loaded, as `maxsim-shard encode` does.
TEST_F(EncodedLiveTest, ACollectionThatIsEncodedLaterHasCodesFromThenOn) {
  Create();
  Open();
  Documents expected;
  for (int64_t n = 0; n < 30; ++n) {
    MustWrite(List(Upsert(absl::StrCat("d", n), n)));
    expected[absl::StrCat("d", n)] = n;
    if (n == 15) MustCompact();
  }
  EXPECT_EQ(Find()->code_planes(), 0);
  EXPECT_EQ(Find()->part(0).CodesOn(0), nullptr);
  live_.reset();
  Close();
  const auto encoded = collection::EncodeCollection({.folder = path_, .codes = {.planes = 2, .factors = true}});
  ASSERT_TRUE(encoded.ok()) << encoded.status();
  Open();
  EXPECT_EQ(Now(), expected);
  EXPECT_EQ(Find()->code_planes(), 2);
  MustWrite(List(Upsert("d50", 50)));
  expected["d50"] = 50;
  EXPECT_EQ(Now(), expected);
  EXPECT_EQ(Find()->code_planes(), 2);
}

}  // namespace
}  // namespace maxsim::live
