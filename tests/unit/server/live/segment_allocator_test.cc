#include "server/live/local/segment_allocator.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "server/store/collection/part_fields.h"
#include "tests/support/fake_backend.h"

namespace maxsim::live {
namespace {

using testing::Test;

// Three devices with 1 MiB of free memory each. A segment takes 64 KiB: 4,096 tokens of 16 bytes.
class SegmentAllocatorTest : public Test {
 protected:
  static constexpr uint64_t kSegmentBytes = 64 << 10;

  SegmentAllocatorTest() {
    for (test::FakeBackend& backend : backends_) {
      backend.SetBytesPerToken(16);
      backend.SetFreeBytes(1 << 20);
    }
    options_.segment_bytes = kSegmentBytes;
  }

  static collection::LogFormat Format() {
    collection::LogFormat format;
    format.storage = ScalarType::kF16;
    format.dim = 8;
    return format;
  }
  absl::StatusOr<LiveSegment> Allocate(absl::Span<const LiveSegment> present, bool replicated = false) {
    SegmentAllocator allocator("c", Format(), options_, &devices_, &ledger_);
    return allocator.Allocate(present, {.replicated = replicated, .codes = codes_, .fields = fields_},
                              {.num_documents = 1, .num_tokens = 100}, SegmentAllocator::Bound::kConfigured);
  }
  static std::vector<uint32_t> DevicesOf(const absl::StatusOr<LiveSegment>& made) {
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->devices : std::vector<uint32_t>();
  }
  static LiveSegment Present(std::vector<uint32_t> devices, uint64_t bytes) {
    LiveSegment segment;
    segment.devices = std::move(devices);
    segment.capacity_bytes = bytes;
    return segment;
  }

  std::optional<store::Segment::Codes> codes_;
  std::vector<collection::Field> fields_;
  LiveOptions options_;
  test::FakeBackend backends_[3] = {test::FakeBackend("cuda"), test::FakeBackend("cuda"), test::FakeBackend("cuda")};
  store::DeviceSet devices_{{{&backends_[0], 0}, {&backends_[1], 1}, {&backends_[2], 2}},
                            store::OnDeviceLoss::kDegrade};
  store::MemoryLedger ledger_{&devices_, {}, {}, nullptr};
};

TEST_F(SegmentAllocatorTest, TakesTheDeviceWithTheFewestBytesOfTheCollection) {
  EXPECT_EQ(DevicesOf(Allocate({Present({0}, 300), Present({1}, 100), Present({2}, 200)})), std::vector<uint32_t>{1});
}

TEST_F(SegmentAllocatorTest, TakesTheDeviceWithTheMostMemoryAmongEqualOnes) {
  backends_[2].SetFreeBytes(2 << 20);
  EXPECT_EQ(DevicesOf(Allocate({})), std::vector<uint32_t>{2});
  EXPECT_EQ(DevicesOf(Allocate({Present({2}, 10)})), std::vector<uint32_t>{0});
}

TEST_F(SegmentAllocatorTest, GoesOnToTheNextDeviceWhereOneIsFull) {
  const std::vector<LiveSegment> present = {Present({0}, 300), Present({1}, 100), Present({2}, 200)};
  backends_[1].SetFreeBytes(0);
  EXPECT_EQ(DevicesOf(Allocate(present)), std::vector<uint32_t>{2});
  backends_[2].SetFreeBytes(0);
  EXPECT_EQ(DevicesOf(Allocate(present)), std::vector<uint32_t>{0});
  backends_[0].SetFreeBytes(0);
  const absl::Status status = Allocate(present).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::IsResourceExhausted(Allocate(present, /*replicated=*/true).status()));
}

TEST_F(SegmentAllocatorTest, PassesOverDevicesThatAreLost) {
  devices_.MarkLost(1, absl::UnavailableError("it fell off the bus"));
  EXPECT_EQ(DevicesOf(Allocate({Present({0}, 100)})), std::vector<uint32_t>{2});
  EXPECT_EQ(DevicesOf(Allocate({}, /*replicated=*/true)), (std::vector<uint32_t>{0, 2}));
  // Device 2 is lost too, but only an allocation on it shows that. The allocator must then take device 0.
  backends_[2].FailAppendables(absl::UnavailableError("it fell off the bus"));
  backends_[2].SetHealth(absl::UnavailableError("it fell off the bus"));
  EXPECT_EQ(DevicesOf(Allocate({Present({0}, 100)})), std::vector<uint32_t>{0});
  devices_.MarkLost(0, absl::UnavailableError("it fell off the bus"));
  EXPECT_TRUE(absl::IsUnavailable(Allocate({}).status()));
}

TEST_F(SegmentAllocatorTest, CountsTheMemoryOfCodes) {
  const absl::StatusOr<LiveSegment> plain = Allocate({});
  ASSERT_TRUE(plain.ok()) << plain.status();
  for (const int planes : {1, 4}) {
    for (const bool factors : {false, true}) {
      codes_ = store::Segment::Codes{{.dim = 8, .originals = ScalarType::kF16, .factors = factors}, planes};
      const absl::StatusOr<LiveSegment> coded = Allocate({});
      ASSERT_TRUE(coded.ok()) << coded.status();
      const AppendableShape& tokens = coded->segment->shape().tokens;
      EXPECT_EQ(coded->segment->reserved_bytes(),
                plain->segment->reserved_bytes() +
                    CodeArrayBytes(codes_->shape, planes, tokens.max_documents, tokens.max_tokens));
      EXPECT_EQ(coded->capacity_bytes, plain->capacity_bytes) << "of token vectors alone";
    }
  }
}

TEST_F(SegmentAllocatorTest, HoldsTheMemoryForScansOfCodes) {
  codes_ = store::Segment::Codes{{.dim = 8, .originals = ScalarType::kF16, .factors = false}, 1};
  for (test::FakeBackend& backend : backends_) backend.SetScanBytesPerDocument(10);
  backends_[0].SetFreeBytes(uint64_t{1} << 41);
  const absl::StatusOr<LiveSegment> made = Allocate({});
  ASSERT_EQ(DevicesOf(made), std::vector<uint32_t>{0});
  const auto documents = static_cast<uint64_t>(made->segment->shape().tokens.max_documents);
  EXPECT_EQ(ledger_.Available().devices[0].scan_bytes, 10 * documents);
  EXPECT_EQ(ledger_.Available().devices[1].scan_bytes, 0u);
}

TEST_F(SegmentAllocatorTest, CountsTheIndexOfFieldsInHostMemoryOnceForAllDevices) {
  const absl::StatusOr<LiveSegment> plain = Allocate({}, /*replicated=*/true);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(ledger_.Available().host.held_bytes, 0u);
  EXPECT_TRUE(plain->segment->HasRoomFor(1, 1, 0));
  EXPECT_FALSE(plain->segment->HasRoomFor(1, 1, 0, 1));
  fields_ = *collection::ParseFields("lang:keyword,year:integer");
  const absl::StatusOr<LiveSegment> indexed = Allocate({}, /*replicated=*/true);
  ASSERT_TRUE(indexed.ok()) << indexed.status();
  const store::Segment::Shape& shape = indexed->segment->shape();
  EXPECT_EQ(ledger_.Available().host.held_bytes, static_cast<uint64_t>(store::PartFields::MaxSegmentBytes(
                                                     2, shape.tokens.max_documents, shape.max_field_bytes)));
  EXPECT_GE(shape.max_field_bytes, shape.tokens.max_documents * 2 * 22);
  EXPECT_EQ(indexed->segment->reserved_bytes(), plain->segment->reserved_bytes());
  EXPECT_TRUE(indexed->segment->HasRoomFor(1, 1, 0, shape.max_field_bytes));
  EXPECT_FALSE(indexed->segment->HasRoomFor(1, 1, 0, shape.max_field_bytes + 1));
}

}  // namespace
}  // namespace maxsim::live
