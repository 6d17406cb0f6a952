// Tests how the snapshots of several servers become the parts of one backup.
#include "tools/maxsimctl/backup/read_parts.h"

#include <xxhash.h>

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/tools/backup/memory_store.h"

namespace maxsim::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<v1::ReadSnapshotResponse> MessagesOfServer(uint64_t sequence, int first, int end, const std::string& text) {
  std::vector<v1::ReadSnapshotResponse> messages(3);
  v1::SnapshotBegin& begin = *messages[0].mutable_begin();
  begin.set_sequence(sequence);
  begin.set_total_bytes(text.size());
  begin.mutable_collection()->set_name("notes");
  begin.mutable_collection()->set_num_documents(9);
  begin.mutable_collection()->mutable_partition()->set_first_slot(static_cast<uint32_t>(first));
  begin.mutable_collection()->mutable_partition()->set_end_slot(static_cast<uint32_t>(end));
  begin.mutable_stream()->set_name("maxsim-notes");
  begin.mutable_stream()->set_created_unix_ns(1'700'000'000'000'000'000);
  messages[1].mutable_file()->set_path("collection.json");
  messages[1].mutable_file()->set_bytes(text.size());
  messages[1].mutable_file()->set_xxh3(XXH3_64bits(text.data(), text.size()));
  messages[2].set_data(text);
  return messages;
}

SnapshotServer Sends(std::string address, std::vector<v1::ReadSnapshotResponse> messages, absl::Status end = {}) {
  return {.address = std::move(address), .read = [messages = std::move(messages), end](SnapshotMessageSink sink) {
            for (const v1::ReadSnapshotResponse& message : messages) {
              if (absl::Status status = sink(message); !status.ok()) return status;
            }
            return end;
          }};
}

class ReadPartsTest : public ::testing::Test {
 protected:
  absl::Status Read(const std::vector<SnapshotServer>& servers) {
    manifest_.id = "0123456789abcdef";
    manifest_.collection = "notes";
    return ReadParts(servers, store_, manifest_);
  }

  // Expects an error that names the server.
  void ExpectRefused(std::vector<v1::ReadSnapshotResponse> messages, absl::StatusCode code, absl::Status end = {}) {
    const absl::Status status = Read({Sends("wrong:1", std::move(messages), std::move(end))});
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("wrong:1: "));
    EXPECT_THAT(manifest_.parts, SizeIs(0));
  }

  backup::MemoryStore store_;
  backup::BackupManifest manifest_;
};

TEST_F(ReadPartsTest, PartsAreInTheOrderOfTheServers) {
  std::vector<SnapshotServer> servers;
  for (int i = 0; i < 20; ++i) {
    servers.push_back(Sends(Cat("s", i, ":1"), MessagesOfServer(100 + static_cast<uint64_t>(i), i, i + 1, Cat(i))));
  }
  ASSERT_TRUE(Read(servers).ok());
  ASSERT_THAT(manifest_.parts, SizeIs(20));
  EXPECT_EQ(manifest_.parts[17].server, "s17:1");
  EXPECT_EQ(manifest_.parts[17].slots, (collection::SlotRange{17, 18}));
  EXPECT_EQ(manifest_.parts[17].sequence, 117);
  EXPECT_EQ(manifest_.parts[17].num_documents, 9);
  EXPECT_EQ(store_.objects["data-0123456789abcdef/part-17/collection.json"], "17");
  EXPECT_EQ(manifest_.stream, (collection::LogStream{"maxsim-notes", 1'700'000'000'000'000'000}));
  EXPECT_EQ(manifest_.position(), 100);
  EXPECT_EQ(manifest_.complete_at(), 119);
}

TEST_F(ReadPartsTest, ServersBeyondTheLimitsOfTheManifestAreNotRead) {
  const auto messages = MessagesOfServer(5, 0, 4096, "{}");
  EXPECT_TRUE(Read({Sends(std::string(256, 'a'), messages)}).ok());
  store_.objects.clear();
  const absl::Status long_address = Read({Sends(std::string(257, 'a'), messages)});
  EXPECT_EQ(long_address.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(long_address.message()), HasSubstr("has 257 bytes, more than the limit of a backup, 256"));
  const absl::Status many = Read(std::vector<SnapshotServer>(1025, Sends("a:1", messages)));
  EXPECT_EQ(many.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(many.message()), HasSubstr("1025 servers"));
  EXPECT_TRUE(store_.objects.empty());
}

TEST_F(ReadPartsTest, WrongSnapshotsAreRefused) {
  const auto right = MessagesOfServer(5, 0, 4096, "{}");
  ExpectRefused({}, absl::StatusCode::kInternal);
  ExpectRefused({right[1], right[2]}, absl::StatusCode::kInternal);
  ExpectRefused({right[0], right[0]}, absl::StatusCode::kInternal);
  ExpectRefused({right[0], right[1]}, absl::StatusCode::kDataLoss);
  ExpectRefused(right, absl::StatusCode::kUnavailable, absl::UnavailableError("the connection is lost"));
  auto wrong = right;
  wrong[0].mutable_begin()->mutable_collection()->set_name("other");
  ExpectRefused(wrong, absl::StatusCode::kInternal);
  wrong = right;
  wrong[0].mutable_begin()->mutable_collection()->mutable_partition()->set_end_slot(4097);
  ExpectRefused(wrong, absl::StatusCode::kInternal);
  wrong = right;
  wrong[2].set_data("[]");
  ExpectRefused(wrong, absl::StatusCode::kDataLoss);
}

TEST_F(ReadPartsTest, PartsOfTwoStreamsAreNoBackup) {
  auto second = MessagesOfServer(5, 2048, 4096, "{}");
  const SnapshotServer first = Sends("a:1", MessagesOfServer(5, 0, 2048, "{}"));
  second[0].mutable_begin()->mutable_stream()->set_created_unix_ns(1'700'000'001'000'000'001);
  auto without_stream = MessagesOfServer(5, 0, 2048, "{}");
  without_stream[0].mutable_begin()->clear_stream();
  const absl::Status status = Read({Sends("none:1", without_stream), first, Sends("b:1", second)});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("b:1: follows stream"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("but a:1 follows another one"));
  manifest_ = {};
  second[0].mutable_begin()->mutable_stream()->set_created_unix_ns(1'700'000'001'000'000'000);
  EXPECT_TRUE(Read({first, Sends("b:1", second)}).ok());
}

TEST_F(ReadPartsTest, AStoreThatFailsEndsTheBackup) {
  store_.fails_at = "data-0123456789abcdef/part-0/collection.json";
  ExpectRefused(MessagesOfServer(5, 0, 4096, "{}"), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace maxsim::ctl
