// Tests which documents a Documents.Delete with a filter finds, and which it leaves to the next call of the client.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/server/service/document_delete_fixture.h"

namespace maxsim::service {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class DeletePagesTest : public DocumentDeleteTest {};

TEST_F(DeletePagesTest, APageHasOnlyDocumentsThatCanBeDeleted) {
  request_.set_collection("ints");
  std::vector<int64_t> ids;
  for (int i = 4; i < 12; ++i) ids.push_back(test::CorpusIntId(i));
  std::sort(ids.begin(), ids.end());
  const auto after = [&](size_t begin, size_t end) {
    return std::vector<int64_t>(ids.begin() + static_cast<int64_t>(begin), ids.begin() + static_cast<int64_t>(end));
  };
  // A request without a version matches documents of any version.
  for (const size_t idx : {0, 1, 2}) live_of_ints().versions[std::to_string(ids[idx])] = 5;
  auto found = Find(live_of_ints(), 3);
  EXPECT_EQ(IntIds(found), after(0, 3));
  EXPECT_TRUE(found->has_more);
  // A delete with a version finds only documents with an older version, so not the first three. A page has three
  // documents, so Find must go on to the next three.
  for (const uint64_t version : {4, 5}) {
    request_.set_version(version);
    found = Find(live_of_ints(), 3);
    EXPECT_EQ(IntIds(found), after(3, 6));
    EXPECT_TRUE(found->has_more);
  }
  request_.set_version(6);
  found = Find(live_of_ints(), 3);
  EXPECT_EQ(IntIds(found), after(0, 3)) << "an older version can be deleted";
  // Newer documents after a full page are no reason for another call.
  request_.set_version(5);
  for (const size_t idx : {6, 7}) live_of_ints().versions[std::to_string(ids[idx])] = 9;
  found = Find(live_of_ints(), 3);
  EXPECT_EQ(IntIds(found), after(3, 6));
  EXPECT_FALSE(found->has_more);
  for (const int64_t id : ids) live_of_ints().versions[std::to_string(id)] = 9;
  found = Find(live_of_ints(), 3);
  EXPECT_THAT(IntIds(found), IsEmpty());
  EXPECT_FALSE(found->has_more);
}

TEST_F(DeletePagesTest, AllPagesTogetherHaveEveryOlderDocumentOnce) {
  request_.set_collection("many");
  request_.set_version(5);
  std::vector<int64_t> expected;
  for (int i = 4; i < kManyDocuments; ++i) {
    const int64_t id = test::CorpusIntId(i);
    live_of_many().versions[std::to_string(id)] = i % 3 == 0 ? 7 : 2;
    if (i % 3 != 0) expected.push_back(id);
  }
  std::sort(expected.begin(), expected.end());
  for (const size_t limit : {expected.size() - 1, expected.size(), expected.size() + 1}) {
    const auto found = Find(live_of_many(), limit);
    std::vector<int64_t> first = expected;
    if (first.size() > limit) first.resize(limit);
    EXPECT_EQ(IntIds(found), first);
    EXPECT_EQ(found->has_more, limit < expected.size());
  }
}

TEST_F(DeletePagesTest, EachCallReadsVersionsTwiceAsFarAsThoseBefore) {
  request_.set_collection("many");
  request_.set_version(5);
  // The test gives each found document a newer version, like a delete. Later calls read these versions again.
  std::vector<size_t> sizes;
  bool has_more = true;
  while (has_more && sizes.size() < 20) {
    const auto found = Find(live_of_many(), kManyDocuments, nullptr, 100);
    const std::vector<int64_t> ids = IntIds(found);
    for (const int64_t id : ids) {
      EXPECT_EQ(live_of_many().versions[std::to_string(id)], 0u) << "found twice";
      live_of_many().versions[std::to_string(id)] = 9;
    }
    sizes.push_back(ids.size());
    has_more = found.ok() && found->has_more;
  }
  // 2,996 documents match. The second call skips the 100 documents of the first, finds its first document at the 101st
  // version, and ends at the 202nd.
  EXPECT_THAT(sizes, ElementsAre(100, 102, 204, 408, 816, 1366));
  // All documents have newer versions now. An empty page must not have has_more, or clients would ask forever.
  const auto none = Find(live_of_many(), kManyDocuments, nullptr, 100);
  EXPECT_THAT(IntIds(none), IsEmpty());
  EXPECT_FALSE(none->has_more);
}

TEST_F(DeletePagesTest, TheLimitOfVersionsHoldsOnlyIfVersionsAreRead) {
  request_.set_collection("many");
  const size_t num_matching = kManyDocuments - 4;
  EXPECT_THAT(IntIds(Find(live_of_many(), kManyDocuments, nullptr, 100)), SizeIs(num_matching));
  request_.set_version(5);
  for (const uint64_t limit : {num_matching - 1, num_matching, num_matching + 1}) {
    const auto found = Find(live_of_many(), kManyDocuments, nullptr, limit);
    EXPECT_THAT(IntIds(found), SizeIs(std::min(limit, num_matching)));
    EXPECT_EQ(found->has_more, limit < num_matching);
  }
  const auto full = Find(live_of_many(), 50, nullptr, 100);
  EXPECT_THAT(IntIds(full), SizeIs(50));
  EXPECT_TRUE(full->has_more);
}

TEST_F(DeletePagesTest, TheDeadlineIsCheckedWhileDocumentsAndVersionsAreRead) {
  request_.set_collection("many");
  // A repeated filter may be answered from the cache, with fewer checks of the deadline. So the test fills the cache
  // first.
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Find(live_of_many(), 1).ok());
  int num_checks = 0;
  const StopCheck count = [&] {
    ++num_checks;
    return absl::OkStatus();
  };
  ASSERT_TRUE(Find(live_of_many(), kManyDocuments, count).ok());
  const int without_versions = num_checks;
  EXPECT_GE(without_versions, 2) << "before the search and within it";
  request_.set_version(5);
  num_checks = 0;
  ASSERT_TRUE(Find(live_of_many(), kManyDocuments, count).ok());
  const int with_versions = num_checks;
  EXPECT_GE(with_versions, without_versions + 2) << "also while versions are looked up";
  for (int last = 1; last <= with_versions; ++last) {
    num_checks = 0;
    const absl::Status status = Find(live_of_many(), kManyDocuments, [&] {
                                  return ++num_checks < last ? absl::OkStatus() : absl::CancelledError("gone");
                                }).status();
    EXPECT_EQ(status, absl::CancelledError("gone")) << last;
    EXPECT_EQ(num_checks, last);
  }
}

}  // namespace
}  // namespace maxsim::service
