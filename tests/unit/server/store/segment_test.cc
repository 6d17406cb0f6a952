#include "server/store/segment.h"

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

// Throws std::bad_alloc in Append while it is told to.
class FullDocuments final : public AppendableDocuments {
 public:
  explicit FullDocuments(std::shared_ptr<AppendableDocuments> base) : base_(std::move(base)) {}
  absl::Status Append(const DocumentsView& documents) override {
    if (is_full) throw std::bad_alloc();
    return base_->Append(documents);
  }
  std::shared_ptr<const Documents> Snapshot() const override { return base_->Snapshot(); }
  absl::Status ReadRows(int64_t first_token, int64_t num_tokens, void* rows) const override {
    return base_->ReadRows(first_token, num_tokens, rows);
  }

  bool is_full = false;

 private:
  const std::shared_ptr<AppendableDocuments> base_;
};

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

}  // namespace
}  // namespace maxsim::store
