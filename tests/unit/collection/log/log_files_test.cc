// Damages each file of a log in turn. The log must open with all its records, or fail with an error that names the
// folder. RocksDB alone would abort the process over some damaged files, and open others as an older state of the log.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "base/file.h"
#include "collection/log/log_summary.h"
#include "collection/manifest.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"
#include "tests/support/values/sanitized.h"
#include "tests/unit/collection/log/log_fixture.h"

namespace maxsim::collection {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kFileTokens = 70;  // 16 bytes each, enough for RocksDB to store the value in a blob file
constexpr uint64_t kDropped = 8;

// Each record has a different version.
uint64_t VersionOfSequence(uint64_t sequence) { return 1000 + sequence; }

class LogFilesTest : public ::testing::Test {
 protected:
  // Makes a log that was opened several times. It has records and versions in tables, blob files and the write-ahead
  // log, and also versions of ids whose records were truncated.
  void MakeTruncated() {
    Append(kDropped + 4);
    {
      auto log = Open();
      ASSERT_TRUE(log->Truncate(kDropped, 0).ok());
      ASSERT_TRUE(log->ReclaimSpace().ok());
    }
    Append(8);
    Append(20);
    Keep(kDropped);
  }

  // Makes a log that was opened twice. Its only tables are those that the second open made from the write-ahead log of
  // the first.
  void MakeNew() {
    Append(30);
    Append(1);
    Keep(0);
  }

  void Keep(uint64_t first_sequence) {
    manifest_.dim = SmallLogFormat().dim;
    manifest_.storage = SmallLogFormat().storage;
    manifest_.log_sequence = first_sequence;
    first_ = first_sequence;
    Store(folder_.Path("log"), "");
  }

  std::unique_ptr<CollectionLog> Open() {
    auto log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kCreate);
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

  void Append(uint64_t count) {
    auto log = Open();
    for (uint64_t idx = 0; idx < count; ++idx) {
      MarkedRecord record(log->last_sequence() + 1, kFileTokens);
      LogRecord view = record.View();
      view.version = VersionOfSequence(view.sequence);
      ASSERT_TRUE(log->Append({&view, 1}).ok());
    }
    last_ = log->last_sequence();
  }

  void Store(const std::string& folder, const std::string& prefix) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory()) {
        Store(entry.path().string(), prefix + name + "/");
      } else {
        files_[prefix + name] = ReadBytes(entry.path().string());
      }
    }
  }

  // Restores all files, and then replaces the contents of the file `name` by `bytes`.
  void Damage(const std::string& name, const std::string& bytes) {
    if (was_opened_) {
      std::filesystem::remove_all(folder_.Path("log"));
      std::filesystem::create_directories(folder_.Path("log/records"));
      for (const auto& [file, whole] : files_) WriteBytes(PathOf(file), whole);
    } else if (!damaged_.empty()) {
      WriteBytes(PathOf(damaged_), files_[damaged_]);
    }
    was_opened_ = false;
    damaged_ = name;
    WriteBytes(PathOf(name), bytes);
  }

  // Opens the log and compares all records. Returns the first error that a user of the log would get, or OK.
  absl::Status ReadAll() {
    auto log = CollectionLog::Open(folder_.path(), SmallLogFormat(), CollectionLog::Mode::kMustExist);
    log_was_opened_ = log.ok();
    if (!log.ok()) return log.status();
    EXPECT_EQ((*log)->first_sequence(), first_);
    EXPECT_EQ((*log)->last_sequence(), last_);
    uint64_t next = first_ + 1;
    absl::Status status = (*log)->Read(first_, last_, [&](const LogRecord& record) {
      MarkedRecord expected(next, kFileTokens);
      expected.record.version = VersionOfSequence(next);
      EXPECT_TRUE(SameRecord(record, expected.View())) << "sequence " << next;
      ++next;
      return absl::OkStatus();
    });
    for (uint64_t sequence = 1; sequence <= last_ && status.ok(); ++sequence) {
      const absl::StatusOr<uint64_t> version = (*log)->VersionOf(Cat("id", sequence));
      if (!version.ok()) return version.status();
      EXPECT_EQ(*version, VersionOfSequence(sequence)) << "of id" << sequence;
    }
    return status;
  }

  // Runs verify and ReadAll on the current files.
  void Check(const std::string& what) {
    SCOPED_TRACE(what);
    const absl::StatusOr<LogReport> report = VerifyLog(folder_.path(), manifest_);
    const bool verified = report.ok() && report->num_problems == 0;
    if (!report.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(report.status())) << report.status();
      EXPECT_THAT(std::string(report.status().message()), HasSubstr(folder_.path()));
    }
    const absl::Status read = ReadAll();
    if (!read.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(read)) << read;
      EXPECT_THAT(std::string(read.message()), HasSubstr(folder_.path()));
    }
    EXPECT_EQ(verified, read.ok()) << report.status() << "; " << read << "; "
                                   << (report.ok() && !report->problems.empty() ? report->problems.front() : "");
    was_opened_ |= log_was_opened_;
    (verified ? num_whole_ : num_damaged_)++;
  }

  void CutManifest() {
    for (const auto& [name, bytes] : FilesToDamage()) {
      if (!absl::StrContains(name, "MANIFEST")) continue;
      for (size_t length = 0; length < bytes.size(); length += test::kSanitized ? 3 : 1) {
        Damage(name, bytes.substr(0, length));
        Check(Cat(name, " of ", bytes.size(), " bytes cut to ", length));
      }
    }
    EXPECT_EQ(num_whole_, 0);
    EXPECT_GT(num_damaged_, test::kSanitized ? 66 : 200);
  }

  std::string PathOf(const std::string& name) { return folder_.Path("log/" + name); }

  // Returns the files that RocksDB reads, in the order in which to damage them.
  std::vector<std::pair<std::string, std::string>> FilesToDamage() {
    std::vector<std::pair<std::string, std::string>> files;
    for (const auto& [name, bytes] : files_) {
      if (!bytes.empty() && !absl::StrContains(name, "OPTIONS")) files.emplace_back(name, bytes);
    }
    return files;
  }

  TemporaryFolder folder_;
  Manifest manifest_;
  uint64_t first_ = 0;
  uint64_t last_ = 0;
  std::map<std::string, std::string> files_;  // of the log's folder
  std::string damaged_;                       // name of the file that is damaged now
  bool log_was_opened_ = false;
  bool was_opened_ = true;  // so that several files may be new
  int num_whole_ = 0;
  int num_damaged_ = 0;
};

TEST_F(LogFilesTest, AreReadWholeWhereNothingIsDamaged) {
  MakeTruncated();
  Check("as it is");
  EXPECT_EQ(num_whole_, 1);
}

TEST_F(LogFilesTest, AManifestThatIsCutAtAnyLengthIsNoticed) {
  MakeTruncated();
  CutManifest();
}

TEST_F(LogFilesTest, AManifestOfANewLogThatIsCutAtAnyLengthIsNoticed) {
  MakeNew();
  CutManifest();
}

TEST_F(LogFilesTest, ThatAreCutAreNoticed) {
  MakeTruncated();
  for (const auto& [name, bytes] : FilesToDamage()) {
    if (absl::StrContains(name, "MANIFEST")) continue;
    const size_t step = bytes.size() / (test::kSanitized ? 3 : 10) + 1;
    for (size_t length = 0; length < bytes.size(); length += step) {
      Damage(name, bytes.substr(0, length));
      Check(Cat(name, " of ", bytes.size(), " bytes cut to ", length));
    }
  }
  EXPECT_GT(num_damaged_, test::kSanitized ? 15 : 50);
}

TEST_F(LogFilesTest, WithFlippedBitsAreNoticedOrMakeNoDifference) {
  MakeTruncated();
  for (const auto& [name, bytes] : FilesToDamage()) {
    const size_t step = bytes.size() / (test::kSanitized ? 3 : 15) + 1;
    for (size_t at = 0; at < bytes.size(); at += step) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << at % 8));
      Damage(name, flipped);
      Check(Cat(name, ": a bit of byte ", at));
    }
  }
  EXPECT_GT(num_damaged_, test::kSanitized ? 15 : 75);
}

TEST_F(LogFilesTest, ThatAreMissingAreNoticed) {
  MakeTruncated();
  for (const auto& [name, bytes] : FilesToDamage()) {
    Damage(name, bytes);
    std::filesystem::remove(PathOf(name));
    Check(Cat(name, " is deleted"));
  }
  EXPECT_GT(num_damaged_, 5);
}

}  // namespace
}  // namespace maxsim::collection
