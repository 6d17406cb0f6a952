// Makes random writes, compactions and restarts of a collection, and compares it with a map in memory.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/values/random_documents.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

// A model of the documents and versions that a collection must hold after its writes.
struct Model {
  struct State {
    bool exists = false;
    int64_t value = 0;
    uint64_t version = 0;
    uint64_t deleted_at = 0;  // deleted_bytes with its delete
  };
  std::map<std::string, State> ids;
  uint64_t remembered_bytes = collection::kRememberedBytes;
  uint64_t deleted_bytes = 0;

  uint64_t VersionOf(const std::string& id) const {
    const auto found = ids.find(id);
    if (found == ids.end()) return 0;
    const State& state = found->second;
    return !state.exists && deleted_bytes - state.deleted_at > remembered_bytes ? 0 : state.version;
  }

  // Returns the outcome as Outcomes writes it.
  char Apply(const store::Write& write, int64_t value) {
    if (write.version != 0 && VersionOf(write.string_id) >= write.version) return 'S';
    State& state = ids[write.string_id];
    const bool is_delete = write.kind == collection::LogRecord::Kind::kDelete;
    const bool missing = is_delete && !state.exists;
    if (missing && write.version == 0) return 'N';
    if (is_delete && write.version != 0) deleted_bytes += 64 + write.string_id.size();
    state = {.exists = !is_delete, .value = value, .version = write.version, .deleted_at = deleted_bytes};
    return missing ? 'N' : 'A';
  }
  Documents documents() const {
    Documents result;
    for (const auto& [id, state] : ids) {
      if (state.exists) result[id] = state.value;
    }
    return result;
  }
};

class RandomWritesTest : public LiveTest, public testing::WithParamInterface<uint64_t> {
 protected:
  int64_t Pick(int64_t below) { return std::uniform_int_distribution<int64_t>(0, below - 1)(random_); }

  void WriteOnce() {
    std::vector<store::Write> writes;
    std::string expected;
    // One call in 20 has up to 150 writes. While a call that large is applied, the log can forget versions that the
    // call itself has read or written.
    for (int64_t count = 1 + Pick(Pick(20) == 0 ? 150 : 6); count > 0; --count) {
      const std::string id = absl::StrCat("d", Pick(40));
      const uint64_t version = Pick(3) == 0 ? static_cast<uint64_t>(1 + Pick(50)) : 0;
      const int64_t value = Pick(1000);
      writes.push_back(Pick(4) == 0 ? Delete(id, version) : Upsert(id, value, version));
      expected += model_.Apply(writes.back(), value);
    }
    EXPECT_EQ(Outcomes(MustWrite(std::move(writes))), expected);
  }

  void CheckVersions() {
    for (const auto& [id, state] : model_.ids) {
      EXPECT_EQ(live().VersionOf(std::string_view(id)).value_or(99), model_.VersionOf(id)) << id;
    }
  }

  std::mt19937_64 random_;
  Model model_;
};

TEST_P(RandomWritesTest, LeaveWhatAMapWouldHold) {
  const uint64_t seed = test::TestSeed() + GetParam();
  SCOPED_TRACE(test::SeedTrace(seed));
  random_.seed(seed);
  options_.segment_bytes = 1024 << Pick(5);
  if (Pick(2) == 0) options_.compact_at_bytes = 3000;
  if (Pick(4) > 0) model_.remembered_bytes = static_cast<uint64_t>(66 * Pick(10));
  // Every other collection has codes.
  if (GetParam() % 2 == 1) {
    codes_ = collection::CodesFormat{.planes = 1 << Pick(3), .factors = Pick(2) == 0, .rotation_seed = 3};
  }
  Create(model_.remembered_bytes);
  Open();
  for (int step = 0; step < (test::kSanitized ? 150 : 250); ++step) {
    const int64_t what = Pick(100);
    if (what < 88) {
      WriteOnce();
    } else if (what < 92) {
      bool changed = false;
      const absl::Status status = live().Compact(nullptr, &changed);
      ASSERT_TRUE(status.ok()) << status;
    } else if (what < 94) {
      const auto reloaded = store_->Reload("c", nullptr);
      ASSERT_TRUE(reloaded.ok()) << reloaded.status();
    } else if (what < 96) {
      Reopen();
    } else {
      ASSERT_EQ(Now(), model_.documents()) << "after step " << step;
      CheckVersions();
    }
    if (HasFailure()) return;
  }
  EXPECT_EQ(Now(), model_.documents());
  Reopen();
  EXPECT_EQ(Now(), model_.documents());
  EXPECT_EQ(Find()->code_planes(), codes_.has_value() ? codes_->planes : 0);
  CheckVersions();
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWritesTest, testing::Range<uint64_t>(0, test::kSanitized ? 2 : 4));

}  // namespace
}  // namespace maxsim::live
