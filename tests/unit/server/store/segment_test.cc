#include "server/store/collection/segment.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using collection::LogRecord;

class SegmentTest : public testing::Test {
 protected:
  static Segment::Shape ShapeOf(int64_t max_documents) {
    return {.tokens = {.type = ScalarType::kF16, .dim = 8, .max_documents = max_documents, .max_tokens = 1000},
            .id_type = collection::IdType::kString,
            .max_text_bytes = 1 << 20,
            .tier = Residency::kHost};
  }
  LogRecord Upsert(uint64_t sequence, std::string_view id, std::string_view payload) const {
    return {.kind = LogRecord::Kind::kUpsert,
            .sequence = sequence,
            .string_id = id,
            .num_tokens = 1,
            .rows = rows_,
            .payload = payload};
  }
  static int64_t ResidentBytes() {
    std::ifstream statm("/proc/self/statm");
    int64_t size = 0;
    int64_t resident = 0;
    statm >> size >> resident;
    return resident * sysconf(_SC_PAGESIZE);
  }

  const std::string rows_ = std::string(16, 'r');
  test::FakeBackend backend_;
};

TEST_F(SegmentTest, TakesHostMemoryOnlyForTheDocumentsThatItHolds) {
  constexpr int64_t kMaxDocuments = int64_t{4} << 20;  // ids and payloads: 128 MiB
  auto memory = backend_.CreateAppendable(ShapeOf(kMaxDocuments).tokens);
  ASSERT_TRUE(memory.ok());
  const int64_t before = ResidentBytes();
  const auto segment = std::make_shared<Segment>(
      ShapeOf(kMaxDocuments), std::vector<Segment::Memory>{{.device = 0, .documents = *memory}}, nullptr, 0);
  EXPECT_LT(ResidentBytes() - before, int64_t{48} << 20);
  EXPECT_TRUE(segment->HasRoomFor(1000, 1000, 1 << 20));
}

TEST_F(SegmentTest, HoldsIdsAndPayloads) {
  auto memory = backend_.CreateAppendable(ShapeOf(10).tokens);
  const auto segment = std::make_shared<Segment>(
      ShapeOf(10), std::vector<Segment::Memory>{{.device = 0, .documents = *memory}}, nullptr, 0);
  uint32_t lost = 0;
  const std::vector<LogRecord> records = {Upsert(1, "a", "{}"), Upsert(2, "", ""), Upsert(3, "ccc", "{\"n\":1}")};
  ASSERT_TRUE(segment->Append(records, &lost).ok());
  for (uint32_t ordinal = 0; ordinal < 3; ++ordinal) {
    EXPECT_EQ(segment->string_id(ordinal), records[ordinal].string_id);
    EXPECT_EQ(segment->payload(ordinal), records[ordinal].payload);
  }
  EXPECT_EQ(segment->num_documents(), 3);
}

TEST_F(SegmentTest, GrowsNoMoreAfterAnAppendThatMemoryRanOutIn) {
  auto memory = backend_.CreateAppendable(ShapeOf(10).tokens);
  auto other = backend_.CreateAppendable(ShapeOf(10).tokens);
  const auto segment = std::make_shared<Segment>(
      ShapeOf(10),
      std::vector<Segment::Memory>{{.device = 0, .documents = *memory}, {.device = 1, .documents = *other}}, nullptr,
      0);
  uint32_t lost = 0;
  ASSERT_TRUE(segment->Append({Upsert(1, "a", "{}")}, &lost).ok());
  // The first device has the document then.
  int num_appends = 0;
  backend_.OnAppend([&] {
    if (++num_appends == 2) throw std::bad_alloc();
  });
  EXPECT_THROW(segment->Append({Upsert(2, "b", "{}")}, &lost).IgnoreError(), std::bad_alloc);
  EXPECT_FALSE(segment->HasRoomFor(1, 1, 0));
  const Part part = segment->MakePart(0);
  EXPECT_EQ(part.num_documents(), 1);
  EXPECT_EQ(part.replicas.size(), 2u);
  EXPECT_EQ(segment->string_id(0), "a");
}

}  // namespace
}  // namespace maxsim::store
