// Changes bytes of a log's files. If writes are lost, the error must name the first lost sequence. The log must never
// return a write that was not appended.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kTokens = 130;  // 130 tokens of 16 bytes: 2 KB, enough for RocksDB to store the value in a blob file
constexpr uint64_t kRecords = 60;

class LogDamageTest : public ::testing::Test {
 protected:
  // Writes each record as a separate batch. If `flushed`, the records are in blob files and tables, otherwise in the
  // write-ahead log.
  void Make(bool flushed) {
    auto log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kCreate);
    ASSERT_TRUE(log.ok()) << log.status();
    for (uint64_t idx = 0; idx < kRecords; ++idx) ASSERT_TRUE(AppendMarked(**log, 1, kTokens).ok());
    if (!flushed) return;
    log->reset();
    log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
    ASSERT_TRUE(log.ok()) << log.status();
  }

  std::string DatabasePath() { return folder_.Path("log/records"); }

  // Returns the names and bytes of the database's files.
  std::map<std::string, std::string> Files() {
    std::map<std::string, std::string> files;
    const absl::StatusOr<std::vector<std::string>> names = ListFiles(DatabasePath());
    for (const std::string& name : names.value_or(std::vector<std::string>()))
      files[name] = ReadBytes(DatabasePath() + "/" + name);
    return files;
  }

  // Returns the path of the largest database file whose name has this ending.
  std::string FindFile(std::string_view ending) {
    std::string found;
    size_t size = 0;
    for (const auto& [name, bytes] : Files()) {
      if (!absl::EndsWith(name, ForStrCat(ending)) || bytes.size() < size) continue;
      found = DatabasePath() + "/" + name;
      size = bytes.size();
    }
    return found;
  }

  // Opens the log and reads all of it. Checks that a failed open has not changed any file.
  absl::StatusOr<uint64_t> OpenAndRead() {
    const auto before = Files();
    auto log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
    if (!log.ok()) {
      EXPECT_TRUE(Files() == before) << "opening it changed a file";
      return log.status();
    }
    return ReadMarked(**log, 0, kTokens);
  }

  TemporaryFolder folder_;
};

TEST_F(LogDamageTest, SaysFromWhichSequenceOnTheWriteAheadLogCannotBeRead) {
  Make(/*flushed=*/false);
  const std::string path = FindFile(".log");
  const std::string whole = ReadBytes(path);
  for (const uint64_t sequence : {1, 7, 31, 58, 60}) {
    const size_t at = whole.find(Cat("<", sequence, ">"));
    ASSERT_NE(at, std::string::npos);
    std::string bytes = whole;
    bytes[at + 2] ^= 0x10;
    WriteBytes(path, bytes);
    const auto read = OpenAndRead();
    EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(Cat("from sequence ", sequence, " on nothing can")));
  }
  WriteBytes(path, whole);
  EXPECT_EQ(OpenAndRead().value_or(0), kRecords);
}

TEST_F(LogDamageTest, TakesNoDamagedLengthForAWriteThatACrashCutOff) {
  Make(/*flushed=*/false);
  const std::string path = FindFile(".log");
  const std::string whole = ReadBytes(path);
  std::mt19937 random(5);
  constexpr int kRounds = test::kSanitized ? 20 : 75;
  int lost = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = whole;
    // Every second round flips a bit in the last 30,000 bytes. There a damaged length field can point past the end of
    // the file, and so look like a write that a crash cut off. The log must report it as damage all the same.
    const size_t from = round % 2 == 0 ? 0 : bytes.size() - std::min<size_t>(bytes.size(), 30'000);
    bytes[from + random() % (bytes.size() - from)] ^= static_cast<char>(1 << random() % 8);
    WriteBytes(path, bytes);
    const auto read = OpenAndRead();
    ASSERT_FALSE(read.ok()) << "a flipped bit was not noticed";
    EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
    ++lost;
  }
  EXPECT_EQ(lost, kRounds);
  WriteBytes(path, whole.substr(0, whole.size() - 1));
  EXPECT_TRUE(absl::IsDataLoss(OpenAndRead().status()));
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsDataLoss(OpenAndRead().status()));
}

TEST_F(LogDamageTest, DropsAWriteThatACrashCutOff) {
  Make(/*flushed=*/false);
  const std::string path = FindFile(".log");
  const std::string whole = ReadBytes(path);
  // Adds bytes after the last acknowledged write, as if the beginning of an unsynced write had reached the file.
  WriteBytes(path, whole + whole.substr(whole.size() - 2100, 700));
  const auto read = OpenAndRead();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, kRecords);
}

// A power cut may leave some sectors of the last record and zeros for the others. That record is dropped: it was never
// acknowledged. If an intact record follows the torn one, the torn one is older damage, and the log must report data
// loss.
TEST_F(LogDamageTest, DropsAWriteThatAPowerCutHasTornUnlessAnotherFollows) {
  Make(/*flushed=*/false);
  const std::string path = FindFile(".log");
  const std::string whole = ReadBytes(path);
  const auto length_of_first = static_cast<size_t>(static_cast<unsigned char>(whole[4])) |
                               static_cast<size_t>(static_cast<unsigned char>(whole[5])) << 8;
  const std::string record = whole.substr(0, 7 + length_of_first);  // undamaged wherever it stands in a block
  ASSERT_LT(whole.size() % 32768 + 2 * record.size(), 32768U) << "they must fit into the block";
  std::string torn = record;
  std::fill(torn.begin() + 7 + static_cast<std::ptrdiff_t>(length_of_first / 2), torn.end(), '\0');
  WriteBytes(path, whole + torn + record);
  EXPECT_TRUE(absl::IsDataLoss(OpenAndRead().status()));
  WriteBytes(path, whole + torn);
  EXPECT_EQ(OpenAndRead().value_or(0), kRecords);
}

TEST_F(LogDamageTest, ReadsWithoutTheTornTailWhileItCannotBeRecovered) {
  auto log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kCreate);
  ASSERT_TRUE(log.ok()) << log.status();
  for (uint64_t idx = 0; idx < kRecords; ++idx) ASSERT_TRUE(AppendMarked(**log, 1, kTokens).ok());
  const std::string path = FindFile(".log");
  const std::string whole = ReadBytes(path);
  const auto length_of_first = static_cast<size_t>(static_cast<unsigned char>(whole[4])) |
                               static_cast<size_t>(static_cast<unsigned char>(whole[5])) << 8;
  std::string torn = whole.substr(0, 7 + length_of_first);
  ASSERT_LT(whole.size() % 32768 + torn.size(), 32768U) << "it must fit into the block";
  std::fill(torn.begin() + 7 + static_cast<std::ptrdiff_t>(length_of_first / 2), torn.end(), '\0');
  WriteBytes(path, whole + torn);
  {
    const FileSizeLimit limit(1000);
    const absl::Status recovered = (*log)->Recover();
    EXPECT_TRUE(absl::IsResourceExhausted(recovered)) << recovered;
    EXPECT_EQ(ReadMarked(**log, 0, kTokens).value_or(0), kRecords);
  }
  ASSERT_TRUE((*log)->Recover().ok());
  EXPECT_EQ(ReadMarked(**log, 0, kTokens).value_or(0), kRecords);
}

TEST_F(LogDamageTest, NamesTheSequenceThatABlobFileHasLost) {
  Make(/*flushed=*/true);
  const std::string path = FindFile(".blob");
  ASSERT_FALSE(path.empty());
  const std::string whole = ReadBytes(path);
  for (const uint64_t sequence : {1, 7, 58}) {
    std::string bytes = whole;
    bytes[bytes.find(Cat("<", sequence, ">")) + 40] ^= 0x10;
    WriteBytes(path, bytes);
    const auto read = OpenAndRead();
    EXPECT_TRUE(absl::IsDataLoss(read.status())) << read.status();
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(Cat("sequence ", sequence, ": ")));
  }
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsDataLoss(OpenAndRead().status())) << OpenAndRead().status();
}

TEST_F(LogDamageTest, InventsNothingWhereTablesAreDamaged) {
  Make(/*flushed=*/true);
  std::mt19937 random(7);
  int lost = 0;
  for (const auto& [name, whole] : Files()) {
    if (whole.empty() || (!absl::EndsWith(name, ".sst") && !absl::StartsWith(name, "MANIFEST"))) continue;
    for (int round = 0; round < (test::kSanitized ? 10 : 25); ++round) {
      std::string bytes = whole;
      bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
      WriteBytes(DatabasePath() + "/" + name, bytes);
      const auto read = OpenAndRead();
      if (read.ok()) {
        EXPECT_EQ(*read, kRecords) << name;  // a bit that says nothing of records
      } else {
        EXPECT_TRUE(absl::IsDataLoss(read.status())) << name << ": " << read.status();
        ++lost;
      }
      // A successful open may have changed this file, so that `whole` is out of date. The loop ends then.
      if (read.ok()) break;
    }
    WriteBytes(DatabasePath() + "/" + name, whole);
  }
  EXPECT_GT(lost, 10);
}

}  // namespace
}  // namespace maxsim::collection
