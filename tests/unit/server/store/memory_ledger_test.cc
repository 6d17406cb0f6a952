#include "server/store/memory/memory_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/fake_backend.h"

namespace maxsim::store {
namespace {

using testing::HasSubstr;

// Returns a demand for memory on the first device only.
MemoryDemand Bytes(uint64_t bytes) { return {.device_bytes = {bytes}}; }

// A memory ledger of one device.
struct OneDevice {
  OneDevice(test::FakeBackend* backend, uint64_t budget, uint64_t reserve)
      : devices(backend), ledger(&devices, {budget, reserve}, {}, nullptr) {}
  uint64_t available() const { return ledger.Available().devices[0].available_bytes; }
  absl::StatusOr<std::shared_ptr<Reservation>> Reserve(uint64_t bytes, std::string_view purpose) {
    return ledger.Reserve(Bytes(bytes), purpose);
  }
  DeviceSet devices;
  MemoryLedger ledger;
};

TEST(MemoryLedgerTest, WithoutABudgetWhatIsFreeLessTheReserveCanBeTaken) {
  test::FakeBackend backend;
  backend.SetFreeBytes(1000);
  OneDevice ledger(&backend, 0, 100);
  EXPECT_EQ(ledger.available(), 900u);
  EXPECT_TRUE(ledger.Reserve(900, "a").ok());
  const absl::Status status = ledger.Reserve(901, "collection a").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(),
              HasSubstr("collection a needs 901 bytes of cpu memory but only 900 bytes can be taken"));
}

TEST(MemoryLedgerTest, ABudgetBoundsAllReservationsTogether) {
  test::FakeBackend backend;
  OneDevice ledger(&backend, 1000, 100);
  auto first = ledger.Reserve(600, "a");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(ledger.Reserve(401, "b").status().code(), absl::StatusCode::kResourceExhausted);
  auto second = ledger.Reserve(400, "b");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(ledger.available(), 0u);
  *first = nullptr;
  EXPECT_EQ(ledger.available(), 600u);
}

TEST(MemoryLedgerTest, AReservationThatIsSplitIsFreedPartByPart) {
  test::FakeBackend backend;
  backend.SetFreeBytes(1000);
  OneDevice ledger(&backend, 1000, 0);
  auto whole = *ledger.Reserve(600, "a");
  std::shared_ptr<Reservation> part = whole->Split(Bytes(200));
  EXPECT_EQ(ledger.available(), 400u);
  part->Commit(Bytes(200));
  EXPECT_EQ(ledger.ledger.Available().devices[0].pending_bytes, 400u);
  whole = nullptr;
  EXPECT_EQ(ledger.ledger.Available().devices[0].held_bytes, 200u);
  EXPECT_EQ(ledger.ledger.Available().devices[0].pending_bytes, 0u);
  part = nullptr;
  EXPECT_EQ(ledger.available(), 1000u);
}

TEST(MemoryLedgerTest, ABudgetBeyondWhatIsFreeDoesNotHelp) {
  test::FakeBackend backend;
  backend.SetFreeBytes(500);
  OneDevice ledger(&backend, 1000, 100);
  EXPECT_EQ(ledger.Reserve(501, "a").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(ledger.Reserve(500, "a").ok());
}

// The backend reports memory that is reserved but not yet allocated as free. The ledger must not reserve it a second
// time, and must not count it twice once it is allocated.
TEST(MemoryLedgerTest, PendingBytesAreTakenOnce) {
  test::FakeBackend backend;
  backend.SetFreeBytes(1000);
  OneDevice ledger(&backend, 0, 0);
  auto reservation = ledger.Reserve(600, "a");
  ASSERT_TRUE(reservation.ok());
  EXPECT_EQ(ledger.available(), 400u);
  backend.SetFreeBytes(700);  // as if 300 of the 600 were allocated
  (*reservation)->Commit(Bytes(300));
  EXPECT_EQ(ledger.available(), 400u);
  backend.SetFreeBytes(400);
  (*reservation)->Commit(Bytes(1000));  // more than was reserved, so all of the reservation is committed
  EXPECT_EQ(ledger.available(), 400u);
  backend.SetFreeBytes(1000);
  *reservation = nullptr;
  EXPECT_EQ(ledger.available(), 1000u);
}

// All reservations share the memory for scans, so only the largest demand counts.
TEST(MemoryLedgerTest, MemoryForScansIsHeldOnce) {
  test::FakeBackend backend;
  OneDevice ledger(&backend, 1000, 0);
  auto first = *ledger.ledger.Reserve({.device_bytes = {100}, .scan_bytes = {300}}, "a");
  EXPECT_EQ(ledger.available(), 600u);
  auto second = *ledger.ledger.Reserve({.device_bytes = {100}, .scan_bytes = {200}}, "b");
  EXPECT_EQ(ledger.available(), 500u);
  const absl::Status refused =
      ledger.ledger.Reserve({.device_bytes = {100}, .scan_bytes = {701}}, "collection c").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("collection c needs 501 bytes of cpu memory (of that for scans of codes "
                                           "401 bytes) but only 500 bytes can be taken"));
  EXPECT_THAT(refused.message(), HasSubstr(", for scans of codes 300 bytes"));
  EXPECT_EQ(ledger.available(), 500u) << "a refusal takes nothing";
  EXPECT_TRUE(ledger.ledger.Reserve({.device_bytes = {100}, .scan_bytes = {700}}, "c").ok());
  EXPECT_EQ(ledger.available(), 500u);
  first = nullptr;
  EXPECT_EQ(ledger.available(), 700u);
  // After a split, each part of a reservation keeps the memory for scans reserved while the part lives.
  std::shared_ptr<Reservation> part = second->Split({.device_bytes = {40}, .scan_bytes = {150}});
  second = nullptr;
  EXPECT_EQ(ledger.available(), 810u);
  part = nullptr;
  EXPECT_EQ(ledger.available(), 1000u);
}

// Lanes allocate the memory for scans while they scan, and then keep it.
TEST(MemoryLedgerTest, WhatLanesAllocatedForScansStaysHeld) {
  test::FakeBackend backend;
  backend.SetFreeBytes(1000);
  OneDevice ledger(&backend, 0, 0);
  auto reservation = *ledger.ledger.Reserve({.device_bytes = {0}, .scan_bytes = {300}}, "a");
  EXPECT_EQ(ledger.available(), 700u);
  ledger.devices.ChangeScanBytes(0, 200);
  backend.SetFreeBytes(800);
  const MemoryLedger::Availability now = ledger.ledger.Available().devices[0];
  EXPECT_EQ(now.available_bytes, 700u);
  EXPECT_EQ(now.scan_bytes, 300u);
  EXPECT_EQ(now.pending_bytes, 100u);
  reservation = nullptr;
  EXPECT_EQ(ledger.available(), 800u);
  EXPECT_EQ(ledger.ledger.Available().devices[0].held_bytes, 200u);
  // The next collection uses what there is.
  EXPECT_TRUE(ledger.ledger.Reserve({.device_bytes = {800}, .scan_bytes = {200}}, "b").ok());
  ledger.devices.ChangeScanBytes(0, -200);
  EXPECT_EQ(ledger.ledger.Available().devices[0].held_bytes, 0u);
}

TEST(MemoryLedgerTest, AReservationMayOutliveTheLedger) {
  test::FakeBackend backend;
  std::shared_ptr<Reservation> reservation;
  {
    OneDevice ledger(&backend, 0, 0);
    reservation = *ledger.Reserve(10, "a");
  }
  reservation->Commit(Bytes(5));
  reservation = nullptr;
}

TEST(MemoryLedgerTest, ParallelReservationsNeverPassTheBudget) {
  test::FakeBackend backend;
  OneDevice ledger(&backend, 1000, 0);
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
  EXPECT_EQ(ledger.ledger.Available().devices[0].held_bytes, 0u);
}

// --- These tests have several memories.

class ManyMemoriesTest : public testing::Test {
 protected:
  ManyMemoriesTest() {
    for (test::FakeBackend& backend : backends_) backend.SetFreeBytes(1000);
  }

  test::FakeBackend backends_[3] = {test::FakeBackend("cuda"), test::FakeBackend("cuda"), test::FakeBackend("cuda")};
  DeviceSet devices_{{{&backends_[0], 4}, {&backends_[1], 5}, {&backends_[2], 7}}, OnDeviceLoss::kDegrade};
};

TEST_F(ManyMemoriesTest, AllOrNothingIsTaken) {
  MemoryLedger ledger(&devices_, {0, 100}, {500, 0}, nullptr);
  const absl::Status one = ledger.Reserve({{900, 900, 901}, 500}, "it").status();
  EXPECT_EQ(one.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(one.message(),
              HasSubstr("it needs 901 bytes of cuda memory of device 7 but only 900 bytes can be taken"));
  const absl::Status host = ledger.Reserve({{900, 900, 900}, 501}, "it").status();
  EXPECT_THAT(host.message(), HasSubstr("it needs 501 bytes of pinned host memory but only 500 bytes can be taken"));
  for (const auto& device : ledger.Available().devices) EXPECT_EQ(device.held_bytes, 0u);
  auto all = ledger.Reserve({{900, 900, 900}, 500}, "it");
  ASSERT_TRUE(all.ok()) << all.status();
  for (const auto& device : ledger.Available().devices) EXPECT_EQ(device.available_bytes, 0u);
  EXPECT_EQ(ledger.Available().host.available_bytes, 0u);
  (*all)->Commit({{900, 0, 0}, 200});
  EXPECT_EQ(ledger.Available().devices[0].pending_bytes, 0u);
  EXPECT_EQ(ledger.Available().devices[1].pending_bytes, 900u);
  EXPECT_EQ(ledger.Available().host.pending_bytes, 300u);
  *all = nullptr;
  for (const auto& device : ledger.Available().devices) EXPECT_EQ(device.available_bytes, 900u);
  EXPECT_EQ(ledger.Available().host.available_bytes, 500u);
}

TEST_F(ManyMemoriesTest, NothingIsTakenOfALostDevice) {
  MemoryLedger ledger(&devices_, {}, {}, nullptr);
  devices_.MarkLost(1, absl::UnavailableError("Xid 79"));
  EXPECT_EQ(ledger.Available().devices[1].available_bytes, 0u);
  const absl::Status status = ledger.Reserve({{1, 1, 1}, 0}, "it").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "device 5: Xid 79");
  EXPECT_TRUE(ledger.Reserve({{1, 0, 1}, 0}, "it").ok());
}

// Each reservation needs memory of one of three devices, and more than half of the host's memory. So there may be only
// one reservation at a time.
TEST_F(ManyMemoriesTest, ParallelReservationsAreAtomicOverAllMemories) {
  MemoryLedger ledger(&devices_, {100, 0}, {100, 0}, nullptr);
  std::atomic<int> holders{0};
  std::atomic<bool> both{false};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int idx = 0; idx < 4; ++idx) {
    threads.emplace_back([&, idx] {
      for (int round = 0; round < 1000; ++round) {
        // All reservations need the host's memory.
        MemoryDemand demand{{0, 0, 0}, 60};
        demand.device_bytes[static_cast<size_t>(idx % 3)] = 60;
        auto reservation = ledger.Reserve(demand, "a");
        if (!reservation.ok()) continue;
        ++taken;
        if (holders.fetch_add(1) != 0) both = true;
        holders.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(both);
  EXPECT_GT(taken, 0);
  for (const auto& device : ledger.Available().devices) EXPECT_EQ(device.held_bytes, 0u);
  EXPECT_EQ(ledger.Available().host.held_bytes, 0u);
}

}  // namespace
}  // namespace maxsim::store
