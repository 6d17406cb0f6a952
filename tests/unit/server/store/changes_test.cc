#include "server/store/collection/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/store/collection/append_only_list.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/live_documents.h"

namespace maxsim::store {
namespace {

using testing::ElementsAreArray;

TEST(AppendOnlyListTest, ElementsStayWhereTheyAre) {
  AppendOnlyList<int> list;
  std::vector<const int*> places;
  for (int n = 0; n < 1000; ++n) places.push_back(&list.Append(n));
  ASSERT_EQ(list.size(), 1000u);
  for (int n = 0; n < 1000; ++n) {
    EXPECT_EQ(list[static_cast<size_t>(n)], n);
    EXPECT_EQ(places[static_cast<size_t>(n)], &list[static_cast<size_t>(n)]);
  }
}

class ChangesTest : public testing::Test {
 protected:
  ChangesTest()
      : seed_(test::TestSeed()),
        trace_(__FILE__, __LINE__, test::SeedTrace(seed_)),
        documents_(test::SmallDocuments(seed_, 300)),
        written_(test::SmallDocuments(seed_ + 1, 500)) {
    test::BuildCorpus(folder_.path(), documents_, options_);
    base_ = test::LoadCorpus(folder_.path(), backend_.get());
    live_ = std::make_unique<test::LiveCorpus>(backend_.get(), base_, documents_, options_, 40);
  }

  // Expects that a snapshot has exactly the expected documents, with all their properties.
  static void ExpectHolds(const Collection& collection, const test::ExpectedDocuments& expected) {
    const std::vector<std::string> ids = expected.ids();
    ASSERT_EQ(collection.num_documents(), ids.size());
    std::vector<const std::string*> pointers;
    for (const std::string& id : ids) pointers.push_back(&id);
    std::vector<uint64_t> ordinals(ids.size());
    collection.FindAll(pointers, absl::MakeSpan(ordinals));
    uint64_t num_tokens = 0;
    for (size_t idx = 0; idx < ids.size(); ++idx) {
      ASSERT_LT(ordinals[idx], collection.num_ordinals()) << ids[idx];
      if (idx > 0) {
        EXPECT_LT(ordinals[idx - 1], ordinals[idx]) << "documents stand in the order of shards and writes";
      }
      const test::ExpectedDocument& document = expected.Get(ids[idx]);
      EXPECT_EQ(collection.string_id(ordinals[idx]), ids[idx]);
      EXPECT_EQ(collection.payload(ordinals[idx]), document.payload);
      EXPECT_EQ(collection.sequence_of(ordinals[idx]), document.sequence);
      EXPECT_EQ(collection.num_document_tokens(ordinals[idx]), document.num_tokens);
      const auto stored = collection.ReadDocument(ordinals[idx]);
      ASSERT_TRUE(stored.ok()) << stored.status();
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(stored->rows.data()), stored->rows.size()), document.rows);
      num_tokens += static_cast<uint64_t>(document.num_tokens);
    }
    EXPECT_EQ(collection.num_tokens(), num_tokens);
    EXPECT_EQ(collection.num_tokens(ordinals), num_tokens);
    for (const size_t max_extra : {size_t{0}, size_t{3}, size_t{10000}}) {
      EXPECT_THAT(Scanned(collection, max_extra), ElementsAreArray(ordinals)) << max_extra;
    }
    uint64_t masked_tokens = 0;
    EXPECT_THAT(Unmasked(collection, &masked_tokens), ElementsAreArray(ordinals));
    EXPECT_EQ(masked_tokens, num_tokens);
  }

  // Returns the ordinals of the documents that scans of codes may select. Adds their tokens to `num_tokens`.
  static std::vector<uint64_t> Unmasked(const Collection& collection, uint64_t* num_tokens) {
    std::vector<uint64_t> unmasked;
    for (size_t idx = 0; idx < collection.num_parts(); ++idx) {
      const Part& part = collection.part(idx);
      ScanMask mask;
      if (collection.num_tombstones(idx) != 0) mask = collection.scan_mask(idx);
      *num_tokens += mask.words == nullptr ? static_cast<uint64_t>(part.num_tokens()) : mask.num_tokens;
      for (int64_t ordinal = 0; ordinal < part.num_documents(); ++ordinal) {
        if (mask.words == nullptr || mask.Has(ordinal)) {
          unmasked.push_back(part.first_ordinal + static_cast<uint64_t>(ordinal));
        }
      }
    }
    return unmasked;
  }

  // Returns the ordinals for which scans of all parts give results.
  static std::vector<uint64_t> Scanned(const Collection& collection, size_t max_extra) {
    std::vector<uint64_t> scanned;
    for (size_t idx = 0; idx < collection.num_parts(); ++idx) {
      const Part& part = collection.part(idx);
      ScanFilter filter;
      if (collection.num_tombstones(idx) != 0) filter = collection.scan_filter(idx, max_extra);
      EXPECT_LE(filter.tombstones.size(), max_extra);
      const int64_t count =
          filter.ordinals == nullptr ? part.num_documents() : static_cast<int64_t>(filter.ordinals->size());
      for (int64_t n = 0; n < count; ++n) {
        const auto ordinal = filter.ordinals == nullptr ? static_cast<uint32_t>(n) : (*filter.ordinals)[n];
        if (!filter.HasTombstone(ordinal)) scanned.push_back(part.first_ordinal + ordinal);
      }
    }
    return scanned;
  }

  // Writes or deletes a document, old or new.
  void Change(std::mt19937_64& random) {
    const std::string id = "doc-" + std::to_string(random() % 400);
    if (random() % 3 == 0) {
      live_->Delete(id);
    } else {
      live_->Upsert(id, written_, static_cast<int64_t>(random() % 500),
                    random() % 2 == 0 ? "" : "{\"n\":" + std::to_string(random() % 100) + "}");
    }
  }

  const uint64_t seed_;
  const testing::ScopedTrace trace_;
  const test::TemporaryFolder folder_;
  const test::CorpusOptions options_ = {.max_shard_bytes = 20'000};
  const test::RandomDocuments documents_;
  const test::RandomDocuments written_;
  const std::unique_ptr<Backend> backend_ = *CreateCpuBackend({.num_threads = 1, .isa = ""});
  std::shared_ptr<const Collection> base_;
  std::unique_ptr<test::LiveCorpus> live_;
};

TEST_F(ChangesTest, WithoutAChangeTheyAreTheGeneration) {
  ASSERT_GT(base_->num_parts(), 2u);
  const auto snapshot = live_->Snapshot();
  EXPECT_TRUE(snapshot->is_live());
  EXPECT_FALSE(base_->is_live());
  EXPECT_TRUE(snapshot->SharesDocumentsWith(*base_));
  ExpectHolds(*snapshot, live_->expected());
}

TEST_F(ChangesTest, SnapshotsOfEveryAgeKeepWhatTheyHad) {
  std::mt19937_64 random(seed_);
  std::vector<std::pair<std::shared_ptr<const Collection>, test::ExpectedDocuments>> snapshots;
  for (int change = 0; change < 1500; ++change) {
    Change(random);
    if (random() % 100 == 0) snapshots.emplace_back(live_->Snapshot(), live_->expected());
  }
  snapshots.emplace_back(live_->Snapshot(), live_->expected());
  EXPECT_GT(live_->changes().num_segments(), 10u);
  for (const auto& [snapshot, expected] : snapshots) {
    SCOPED_TRACE(snapshot->sequence());
    ExpectHolds(*snapshot, expected);
  }
  EXPECT_EQ(live_->changes().num_documents(), live_->expected().size());
}

TEST_F(ChangesTest, AListOfOrdinalsGoesOnWithTheSegmentThatGrows) {
  test::LiveCorpus live(backend_.get(), base_, documents_, options_, 400);  // one segment
  const auto upsert = [&](int64_t n) { live.Upsert("new-" + std::to_string(n), written_, n); };
  for (int64_t n = 0; n < 40; ++n) upsert(n);
  for (int64_t n = 0; n < 10; ++n) live.Delete("new-" + std::to_string(4 * n));
  const auto first = live.Snapshot();
  const test::ExpectedDocuments expected_first = live.expected();
  const size_t part_idx = first->num_parts() - 1;
  EXPECT_TRUE(first->scan_filter(part_idx, 3).tombstones.empty());

  for (int64_t n = 40; n < 90; ++n) upsert(n);
  live.Delete("new-1");   // is in the first snapshot's list
  live.Delete("new-80");  // was written after that list was made
  const auto second = live.Snapshot();
  const test::ExpectedDocuments expected_second = live.expected();
  const ScanFilter filter = second->scan_filter(part_idx, 3);
  EXPECT_EQ(filter.tombstones, (std::vector<uint32_t>{1, 80})) << "the list is not made anew";
  EXPECT_EQ(filter.ordinals->size(), 80u);
  uint64_t num_tokens = 0;
  for (const uint32_t ordinal : *filter.ordinals) {
    num_tokens += static_cast<uint64_t>(second->num_document_tokens(second->part(part_idx).first_ordinal + ordinal));
  }
  EXPECT_EQ(filter.num_tokens, num_tokens);

  for (int64_t n = 90; n < 100; ++n) upsert(n);
  for (int64_t n = 41; n < 60; ++n) live.Delete("new-" + std::to_string(n));
  const auto third = live.Snapshot();
  EXPECT_TRUE(third->scan_filter(part_idx, 3).tombstones.empty()) << "these are too many to be dropped";
  for (int round = 0; round < 2; ++round) {
    ExpectHolds(*third, live.expected());
    ExpectHolds(*first, expected_first);
    ExpectHolds(*second, expected_second);
  }
}

TEST_F(ChangesTest, MemoryOfIdsTombstonesListsAndMasksCounts) {
  const auto bytes = [&] { return live_->changes().num_bytes(); };
  uint64_t before = bytes();
  const std::string long_id(1000, 'x');
  live_->Upsert(long_id, written_, 0);
  EXPECT_GT(bytes(), before + long_id.size());
  live_->Upsert("new", written_, 1);
  for (int n = 0; n < 50; ++n) live_->Delete("doc-" + std::to_string(n));
  live_->Delete("new");
  const auto snapshot = live_->Snapshot();
  for (const size_t part_idx : {size_t{0}, snapshot->num_parts() - 1}) {
    ASSERT_GT(snapshot->num_tombstones(part_idx), 0u);
    before = bytes();
    const ScanMask mask = snapshot->scan_mask(part_idx);
    EXPECT_EQ(bytes(), before + mask.words->size() * sizeof(uint64_t));
    const ScanFilter filter = snapshot->scan_filter(part_idx, 0);
    const uint64_t with_both =
        before + mask.words->size() * sizeof(uint64_t) + filter.ordinals->size() * sizeof(uint32_t);
    EXPECT_EQ(bytes(), with_both);
    snapshot->scan_mask(part_idx);
    snapshot->scan_filter(part_idx, 0);
    EXPECT_EQ(bytes(), with_both) << "they are kept, and made once";
  }
}

TEST_F(ChangesTest, UnknownAndDeletedIdsAreNotFound) {
  live_->Delete("doc-7");
  live_->Upsert("new", written_, 0);
  const auto before = live_->Snapshot();
  live_->Delete("new");
  const auto after = live_->Snapshot();
  EXPECT_EQ(before->Find("doc-7"), std::nullopt);
  EXPECT_NE(before->Find("new"), std::nullopt);
  EXPECT_EQ(after->Find("new"), std::nullopt);
  EXPECT_EQ(after->Find("doc-300"), std::nullopt);
  EXPECT_NE(base_->Find("doc-7"), std::nullopt) << "the generation is what it was";
}

TEST_F(ChangesTest, TombstonesOfTheGenerationCount) {
  Generation::Contents contents{.name = "a",
                                .path = folder_.path(),
                                .manifest = base_->manifest(),
                                .parts = base_->generation().parts(),
                                .index = *IdIndex::Build({}),
                                .on_gpu = false,
                                .loaded_at = absl::Now(),
                                .tombstones = collection::Tombstones(base_->num_parts())};
  contents.tombstones[0] = {0, 5};
  contents.tombstones[1] = {2};
  std::vector<std::shared_ptr<const collection::Shard>> shards;
  for (const Part& part : contents.parts) shards.push_back(part.shard);
  contents.index = *IdIndex::Build(shards, nullptr, contents.tombstones);
  const auto generation = std::make_shared<const Generation>(std::move(contents));
  const auto snapshot = std::make_shared<Changes>(generation)->Snapshot(0);
  EXPECT_EQ(snapshot->num_documents(), 297u);
  EXPECT_EQ(snapshot->Find("doc-0"), std::nullopt);
  EXPECT_EQ(snapshot->Find("doc-5"), std::nullopt);
  EXPECT_EQ(snapshot->Find("doc-6"), std::optional<uint64_t>(6));
  EXPECT_EQ(snapshot->num_tombstones(0), 2u);
  EXPECT_EQ(Scanned(*snapshot, 0).size(), 297u);
}

TEST_F(ChangesTest, ReadersSeeTheirSnapshotWhileChangesGoOn) {
  std::mt19937_64 random(seed_);
  for (int change = 0; change < 100; ++change) Change(random);
  const auto snapshot = live_->Snapshot();
  const test::ExpectedDocuments expected = live_->expected();
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  for (int n = 0; n < 2; ++n) {
    readers.emplace_back([&] {
      while (!done) ExpectHolds(*snapshot, expected);
      ExpectHolds(*snapshot, expected);
    });
  }
  for (int change = 0; change < 2000; ++change) {
    Change(random);
    live_->Snapshot();
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  ExpectHolds(*live_->Snapshot(), live_->expected());
}

}  // namespace
}  // namespace maxsim::store
