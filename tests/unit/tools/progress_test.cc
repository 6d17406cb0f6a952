#include "tools/maxsim-shard/progress.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace maxsim::shard_tool {
namespace {

using collection::BuildProgress;
using testing::HasSubstr;

TEST(ProgressTest, SaysHowFarHowFastAndHowLong) {
  BuildProgress progress{.stage = BuildProgress::Stage::kWriting,
                         .documents_done = 726,
                         .documents_total = 1398,
                         .bytes_done = 50'000'000,
                         .bytes_total = 200'000'000};
  EXPECT_EQ(ProgressDisplay::Format(progress, 2.0, 8),
            "writing  [==>     ]   25%  726/1,398 documents  25.0 MB/s  0:06 left");
  EXPECT_EQ(ProgressDisplay::Format(progress, 4000.0, 0), "writing   25%  726/1,398 documents  0.0 MB/s  3:20:00 left");
  progress.bytes_done = progress.bytes_total;
  EXPECT_THAT(ProgressDisplay::Format(progress, 2.0, 8), HasSubstr("[========]  100%"));
  progress.stage = BuildProgress::Stage::kReading;
  EXPECT_EQ(ProgressDisplay::Format(progress, 2.0, 0), "reading   51%  726/1,398 documents");
}

}  // namespace
}  // namespace maxsim::shard_tool
