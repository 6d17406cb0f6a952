#include "server/service/bootstrap/snapshot_receiver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/unit/server/service/bootstrap/snapshot_fixture.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

v1::ReadSnapshotResponse FileMessage(const std::string& path, const std::string& bytes) {
  v1::ReadSnapshotResponse message;
  message.mutable_file()->set_path(path);
  message.mutable_file()->set_bytes(bytes.size());
  message.mutable_file()->set_xxh3(XXH3_64bits(bytes.data(), bytes.size()));
  return message;
}

v1::ReadSnapshotResponse DataMessage(const std::string& bytes) {
  v1::ReadSnapshotResponse message;
  message.set_data(bytes);
  return message;
}

class SnapshotReceiverTest : public testing::Test {
 protected:
  SnapshotReceiverTest() {
    std::filesystem::create_directory(folder_ / "from");
    WriteFiles(folder_ / "from", SmallFiles());
    messages_ = MessagesOf(folder_ / "from");
    total_bytes_ = messages_[0].begin().total_bytes();
    messages_.erase(messages_.begin());
  }

  // Receives messages into an empty folder. Returns the first error.
  absl::Status Receive(const std::vector<v1::ReadSnapshotResponse>& messages, uint64_t total_bytes) {
    std::filesystem::remove_all(folder_ / "outer");
    std::filesystem::create_directories(to_);
    SnapshotReceiver receiver(to_, total_bytes);
    for (const v1::ReadSnapshotResponse& message : messages) {
      if (absl::Status status = receiver.Take(message); !status.ok()) return status;
    }
    return receiver.End();
  }
  absl::Status Receive(const std::vector<v1::ReadSnapshotResponse>& messages) {
    return Receive(messages, total_bytes_);
  }

  const test::TemporaryFolder folder_;
  const std::string to_ = folder_ / "outer/to";
  std::vector<v1::ReadSnapshotResponse> messages_;  // without the first one
  uint64_t total_bytes_ = 0;
};

TEST_F(SnapshotReceiverTest, WritesTheFilesThatWereSent) {
  const absl::Status status = Receive(messages_);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadFiles(to_), SmallFiles());
}

TEST_F(SnapshotReceiverTest, NoSnapshotThatEndsEarlyIsComplete) {
  for (size_t count = 0; count < messages_.size(); ++count) {
    const absl::Status status = Receive({messages_.begin(), messages_.begin() + static_cast<ptrdiff_t>(count)});
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << count << " messages: " << status;
  }
}

TEST_F(SnapshotReceiverTest, AChangedByteOrChecksumIsNoticed) {
  for (v1::ReadSnapshotResponse& message : messages_) {
    const v1::ReadSnapshotResponse right = message;
    if (message.has_file()) {
      message.mutable_file()->set_xxh3(message.file().xxh3() ^ 1);
    } else {
      std::string& data = *message.mutable_data();
      data[data.size() / 2] ^= 0x10;
    }
    const absl::Status status = Receive(messages_);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("checksum"));
    message = right;
  }
}

TEST_F(SnapshotReceiverTest, NothingIsWrittenOutsideOfTheFolder) {
  const std::string bytes = "x";
  for (const std::string& path : {std::string(),
                                  std::string("/tmp/x"),
                                  std::string(".."),
                                  std::string("../x"),
                                  std::string("a/../../x"),
                                  std::string("a/.."),
                                  std::string("."),
                                  std::string("./x"),
                                  std::string("a//x"),
                                  std::string("a/"),
                                  std::string("a\\x"),
                                  std::string("a\0b", 3),
                                  std::string("a\nb"),
                                  std::string("\x7f"),
                                  std::string("caf\xc3\xa9"),
                                  std::string("a b"),
                                  std::string("collection.json.tmp"),
                                  std::string("a.tmp/x"),
                                  std::string(600, 'a'),
                                  std::string(256, 'a')}) {
    const absl::Status status = Receive({FileMessage(path, bytes), DataMessage(bytes)}, 1);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << path << ": " << status;
    EXPECT_THAT(ReadFiles(folder_ / "outer"), IsEmpty()) << path;
  }
  EXPECT_FALSE(std::filesystem::exists("/tmp/x"));
}

TEST_F(SnapshotReceiverTest, MessagesInAWrongOrderAreRefused) {
  v1::ReadSnapshotResponse begin;
  begin.mutable_begin()->set_sequence(1);
  const std::vector<std::vector<v1::ReadSnapshotResponse>> wrong = {
      {begin},
      {v1::ReadSnapshotResponse()},
      {DataMessage("x")},
      {FileMessage("a", "xy"), DataMessage("x"), FileMessage("b", "")},
      {FileMessage("a", "x"), DataMessage("x"), DataMessage("x")},
      {FileMessage("a", "x"), DataMessage("xx")},
      {FileMessage("a", "x"), DataMessage("")},
      {FileMessage("a", ""), FileMessage("a", "")},
      {FileMessage("a/b", ""), FileMessage("a", "")},
      {FileMessage("a", std::string(2 << 20, 'x')), DataMessage(std::string((1 << 20) + 1, 'x'))},
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    const absl::Status status = Receive(wrong[i], uint64_t{8} << 20);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << i << ": " << status;
    EXPECT_FALSE(std::string(status.message()).empty());
  }
  EXPECT_FALSE(Receive({FileMessage("a", ""), FileMessage("a/b", "")}).ok());
}

TEST_F(SnapshotReceiverTest, TheAnnouncedBytesAreTheLimit) {
  EXPECT_EQ(Receive(messages_, total_bytes_ - 1).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(Receive(messages_, total_bytes_ + 1).code(), absl::StatusCode::kDataLoss);
  v1::ReadSnapshotResponse huge = FileMessage("a", "");
  huge.mutable_file()->set_bytes(~uint64_t{0});
  EXPECT_EQ(Receive({huge}).code(), absl::StatusCode::kInternal);
}

TEST_F(SnapshotReceiverTest, ASnapshotWithoutAManifestIsIncomplete) {
  const absl::Status status = Receive({FileMessage("shard", "x"), DataMessage("x")}, 1);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("collection.json"));
}

}  // namespace
}  // namespace maxsim::service
