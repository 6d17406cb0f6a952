#include "server/store/memory_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/store/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;

TEST(MemoryLedgerTest, BytesReadLikePeopleSayThem) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(1023), "1023 bytes");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB (1,024 bytes)");
  EXPECT_EQ(FormatBytes(uint64_t{5} << 30), "5.0 GiB (5,368,709,120 bytes)");
}

TEST(MemoryLedgerTest, WithoutABudgetWhatIsFreeLessTheReserveCanBeTaken) {
  test::FakeBackend backend;
  backend.SetFreeBytes(1000);
  MemoryLedger ledger(&backend, 0, 100);
  EXPECT_EQ(ledger.Available()->available_bytes, 900u);
  EXPECT_TRUE(ledger.Reserve(900, "a").ok());
  const absl::Status status = ledger.Reserve(901, "collection a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("collection a needs 901 bytes of cpu memory and 900 bytes can be taken"));
}

TEST(MemoryLedgerTest, ABudgetBoundsAllReservationsTogether) {
  test::FakeBackend backend;
  MemoryLedger ledger(&backend, 1000, 100);
  auto first = ledger.Reserve(600, "a");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(ledger.Reserve(401, "b").status().code(), absl::StatusCode::kResourceExhausted);
  auto second = ledger.Reserve(400, "b");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(ledger.Available()->available_bytes, 0u);
  *first = nullptr;
  EXPECT_EQ(ledger.Available()->available_bytes, 600u);
}

TEST(MemoryLedgerTest, ABudgetBeyondWhatIsFreeDoesNotHelp) {
  test::FakeBackend backend;
  backend.SetFreeBytes(500);
  MemoryLedger ledger(&backend, 1000, 100);
  EXPECT_EQ(ledger.Reserve(501, "a").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(ledger.Reserve(500, "a").ok());
}

// Bytes that are reserved and not allocated yet look free to the backend: they must not be given out twice, and once
// they are allocated they must not be counted twice.
TEST(MemoryLedgerTest, PendingBytesAreTakenOnce) {
  test::FakeBackend backend;
  backend.SetFreeBytes(1000);
  MemoryLedger ledger(&backend, 0, 0);
  auto reservation = ledger.Reserve(600, "a");
  ASSERT_TRUE(reservation.ok());
  EXPECT_EQ(ledger.Available()->available_bytes, 400u);
  backend.SetFreeBytes(700);  // 300 of the 600 are allocated
  (*reservation)->Commit(300);
  EXPECT_EQ(ledger.Available()->available_bytes, 400u);
  backend.SetFreeBytes(400);
  (*reservation)->Commit(1000);  // more than there is: all of it
  EXPECT_EQ(ledger.Available()->available_bytes, 400u);
  backend.SetFreeBytes(1000);
  *reservation = nullptr;
  EXPECT_EQ(ledger.Available()->available_bytes, 1000u);
}

TEST(MemoryLedgerTest, AReservationMayOutliveTheLedger) {
  test::FakeBackend backend;
  std::shared_ptr<Reservation> reservation;
  {
    MemoryLedger ledger(&backend, 0, 0);
    reservation = *ledger.Reserve(10, "a");
  }
  reservation->Commit(5);
  reservation = nullptr;
}

TEST(MemoryLedgerTest, ParallelReservationsNeverPassTheBudget) {
  test::FakeBackend backend;
  MemoryLedger ledger(&backend, 1000, 0);
  std::atomic<uint64_t> held{0};
  std::atomic<bool> passed{false};
  std::vector<std::thread> threads;
  for (uint64_t idx = 0; idx < 4; ++idx) {
    threads.emplace_back([&, idx] {
      for (int round = 0; round < 2000; ++round) {
        const uint64_t bytes = 200 + 70 * idx;
        auto reservation = ledger.Reserve(bytes, "a");
        if (!reservation.ok()) continue;
        if (held.fetch_add(bytes) + bytes > 1000) passed = true;
        held.fetch_sub(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(passed);
  EXPECT_EQ(ledger.Available()->held_bytes, 0u);
}

}  // namespace
}  // namespace maxsim::store
