#include "server/service/call/write_expiry.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace maxsim::service {
namespace {

const absl::Time kTime = absl::FromUnixMicros(1'234'567);

TEST(WriteExpiryTest, IsReadByTheProcessWhoseClockItNames) {
  EXPECT_NE(ClockId(), 0u);
  EXPECT_EQ(FormatWriteExpiry(7, kTime), "7:1234567");
  EXPECT_EQ(ParseWriteExpiry(FormatWriteExpiry(ClockId(), kTime)), kTime);
  EXPECT_EQ(ParseWriteExpiry(FormatWriteExpiry(ClockId(), absl::FromUnixMicros(-1))), absl::FromUnixMicros(-1));
}

TEST(WriteExpiryTest, HasPassedForAnyOtherProcess) {
  EXPECT_EQ(ParseWriteExpiry(FormatWriteExpiry(ClockId() + 1, kTime)), absl::InfinitePast());
}

TEST(WriteExpiryTest, HasPassedIfItCannotBeRead) {
  const std::string id = std::to_string(ClockId());
  const std::vector<std::string> values = {"",         id,         id + ":",        ":5",
                                           id + ":5x", id + ": 5", "x" + id + ":5", id + ":99999999999999999999"};
  for (const std::string& value : values) {
    EXPECT_EQ(ParseWriteExpiry(value), absl::InfinitePast()) << value;
  }
}

}  // namespace
}  // namespace maxsim::service
