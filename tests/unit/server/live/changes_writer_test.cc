// Tests that a write survives the loss of a device that already has the write's documents, but not yet their codes.
#include "server/live/local/changes_writer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"

namespace maxsim::live {
namespace {

// A collection with codes on two devices.
class ChangesWriterTest : public testing::Test {
 protected:
  ChangesWriterTest() {
    test::BuildCorpus(folder_.path(), test::SmallDocuments(test::TestSeed(), 40), {.codes = {.planes = 4}});
    store::CollectionStore store(&devices_, {.memory_reserve_bytes = 0, .host_reserve_bytes = 0});
    auto loaded = store.Load("c", folder_.path(), store::Residency::kAuto, store::Replication::kOn);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    generation_ = (*loaded)->shared_generation();
    options_.segment_bytes = 64 << 10;  // 64 documents
  }

  // Returns upserts of new ids, one token each.
  std::vector<collection::LogRecord> Upserts(int count) {
    std::vector<collection::LogRecord> records;
    for (int n = 0; n < count; ++n) {
      records.push_back({.kind = collection::LogRecord::Kind::kUpsert,
                         .sequence = ++sequence_,
                         .string_id = ids_.emplace_back("new-" + std::to_string(sequence_)),
                         .num_tokens = 1,
                         .rows = rows_});
    }
    return records;
  }
  static void Write(ChangesWriter& writer, const std::vector<collection::LogRecord>& records) {
    writer.Begin();
    ASSERT_TRUE(writer.Plan(records).ok());
    const absl::Status status = writer.Commit();
    ASSERT_TRUE(status.ok()) << status;
  }

  const test::TemporaryFolder folder_;
  test::FakeBackend backends_[2] = {test::FakeBackend("cuda"), test::FakeBackend("cuda")};
  store::DeviceSet devices_{{{&backends_[0], 0}, {&backends_[1], 1}}, store::OnDeviceLoss::kDegrade};
  store::MemoryLedger ledger_{&devices_, {}, {}, nullptr};
  LiveOptions options_;
  std::shared_ptr<const store::Generation> generation_;
  const std::string rows_ = std::string(32, 'r');  // 16 F16 values
  std::deque<std::string> ids_;
  uint64_t sequence_ = 0;
};

// A write sends documents to two devices, and one of them is lost before it gets their codes. Afterwards the other
// device alone must have the documents, with their codes.
TEST_F(ChangesWriterTest, ADeviceThatIsLostBetweenDocumentsAndCodesIsLeftOut) {
  for (const uint32_t lost : {1u, 0u}) {
    SCOPED_TRACE(lost);
    // Each round has new devices, because a lost device stays lost.
    test::FakeBackend backends[2] = {test::FakeBackend("cuda"), test::FakeBackend("cuda")};
    store::DeviceSet devices{{{&backends[0], 0}, {&backends[1], 1}}, store::OnDeviceLoss::kDegrade};
    store::MemoryLedger ledger{&devices, {}, {}, nullptr};
    SegmentAllocator allocator("c", collection::LogFormat::Of(generation_->manifest()), options_, &devices, &ledger);
    ChangesWriter writer(generation_, /*replicated=*/true, &allocator);
    sequence_ = 0;
    Write(writer, Upserts(3));
    const auto before = writer.Snapshot();
    ASSERT_EQ(before->num_parts(), generation_->parts().size() + 1);
    ASSERT_EQ(before->part(before->num_parts() - 1).replicas.size(), 2u);

    std::atomic<int> appends_to_lost{0};
    backends[lost].OnAppend([&] { ++appends_to_lost; });
    backends[lost].FailCodeAppends(absl::UnavailableError("Xid 79"));
    Write(writer, Upserts(2));
    EXPECT_EQ(appends_to_lost, 1) << "it had the documents";
    EXPECT_FALSE(devices.alive(lost));
    EXPECT_TRUE(devices.alive(1 - lost));

    // The documents of that write are in a new segment on the other device, with their codes. No other part has them.
    const auto after = writer.Snapshot();
    EXPECT_EQ(after->num_documents(), generation_->num_ordinals() + 5);
    ASSERT_EQ(after->num_parts(), before->num_parts() + 1);
    const store::Part& old = after->part(after->num_parts() - 2);
    const store::Part& made = after->part(after->num_parts() - 1);
    EXPECT_EQ(old.num_documents(), 3);
    for (const store::Replica& replica : old.replicas) {
      EXPECT_EQ(replica.documents->num_documents(), 3);
      EXPECT_EQ(replica.codes->num_documents(), 3);
    }
    EXPECT_EQ(made.num_documents(), 2);
    ASSERT_EQ(made.replicas.size(), 1u);
    EXPECT_EQ(made.replicas[0].device, 1 - lost);
    EXPECT_EQ(made.replicas[0].documents->num_documents(), 2);
    EXPECT_EQ(made.replicas[0].codes->num_documents(), 2);
    EXPECT_EQ(after->code_planes(), 4);
    EXPECT_EQ(after->num_unavailable(devices), 0u) << "of the first segment the other device has a copy";
    for (uint64_t sequence = 1; sequence <= 5; ++sequence) {
      const auto ordinal = after->Find("new-" + std::to_string(sequence));
      ASSERT_TRUE(ordinal.has_value()) << sequence;
      EXPECT_EQ(after->sequence_of(*ordinal), sequence);
    }

    // The next write goes to the new segment.
    Write(writer, Upserts(1));
    EXPECT_EQ(writer.Snapshot()->num_parts(), after->num_parts());
    EXPECT_EQ(writer.Snapshot()->part(after->num_parts() - 1).replicas[0].codes->num_documents(), 3);
  }
}

TEST_F(ChangesWriterTest, WithoutAnotherDeviceTheWriteIsNotTaken) {
  SegmentAllocator allocator("c", collection::LogFormat::Of(generation_->manifest()), options_, &devices_, &ledger_);
  ChangesWriter writer(generation_, /*replicated=*/true, &allocator);
  Write(writer, Upserts(3));
  for (test::FakeBackend& backend : backends_) backend.FailCodeAppends(absl::UnavailableError("Xid 79"));
  writer.Begin();
  ASSERT_TRUE(writer.Plan(Upserts(2)).ok());
  const absl::Status status = writer.Commit();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(writer.sequence(), 3u);
  EXPECT_EQ(writer.Snapshot()->num_documents(), generation_->num_ordinals() + 3);
}

}  // namespace
}  // namespace maxsim::live
