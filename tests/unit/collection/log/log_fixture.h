// Makes logs of distinguishable records, for the tests of collection/log/.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "collection/log/collection_log.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/collection/shard_fixture.h"

namespace maxsim::collection {

inline LogFormat SmallLogFormat() {
  return {.id_type = IdType::kString, .storage = ScalarType::kF16, .dim = 8, .rotation_seed = 0};
}

// Returns `num_tokens` rows of 16 bytes. Each row contains the sequence as text, so that a test can find it in a file.
inline std::string MarkedRows(uint64_t sequence, int32_t num_tokens) {
  std::string rows = Cat("<", sequence, ">");
  rows.resize(16, '.');
  // Doubles the rows until there are enough, because an append per row is slow without optimisation.
  const size_t size = size_t{16} * static_cast<size_t>(num_tokens);
  while (rows.size() < size) rows.append(rows, 0, size - rows.size());
  rows.resize(size);
  return rows;
}

// Holds a record that is derived from its sequence. View() returns a record whose views point into this object.
struct MarkedRecord {
  MarkedRecord(uint64_t sequence, int32_t num_tokens)
      : id(Cat("id", sequence)), payload(Cat("{\"n\":", sequence, "}")) {
    record.sequence = sequence;
    record.version = sequence % 3 == 0 ? sequence : 0;
    if (sequence % 5 == 4) {
      record.kind = LogRecord::Kind::kDelete;
    } else {
      record.num_tokens = num_tokens;
      rows = MarkedRows(sequence, num_tokens);
    }
  }
  LogRecord View() const {
    LogRecord view = record;
    view.string_id = id;
    if (view.kind == LogRecord::Kind::kUpsert) {
      view.rows = rows;
      view.payload = payload;
    }
    return view;
  }

  LogRecord record;
  std::string id;
  std::string payload;
  std::string rows;
};

inline absl::Status AppendMarked(CollectionLog& log, uint64_t count, int32_t num_tokens) {
  std::vector<std::unique_ptr<MarkedRecord>> records;
  std::vector<LogRecord> views;
  for (uint64_t idx = 1; idx <= count; ++idx) {
    records.push_back(std::make_unique<MarkedRecord>(log.last_sequence() + idx, num_tokens));
    views.push_back(records.back()->View());
  }
  return log.Append(views);
}

inline bool SameRecord(const LogRecord& a, const LogRecord& b) {
  return a.kind == b.kind && a.sequence == b.sequence && a.string_id == b.string_id && a.int_id == b.int_id &&
         a.version == b.version && a.num_tokens == b.num_tokens && a.scale == b.scale && a.rows == b.rows &&
         a.payload == b.payload;
}

// Reads all records after `after` and compares each with what AppendMarked appended. Returns the last record's
// sequence.
inline absl::StatusOr<uint64_t> ReadMarked(const CollectionLog& log, uint64_t after, int32_t num_tokens) {
  uint64_t last = after;
  absl::Status status = log.Read(after, log.last_sequence(), [&](const LogRecord& record) {
    EXPECT_EQ(record.sequence, last + 1);
    last = record.sequence;
    EXPECT_TRUE(SameRecord(record, MarkedRecord(record.sequence, num_tokens).View())) << "sequence " << last;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return last;
}

// While this object lives, no file of this process can grow beyond `num_bytes`, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t num_bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lowered{num_bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &lowered);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

// Holds a log in a temporary folder.
class LogTest : public ::testing::Test {
 protected:
  void Open(CollectionLog::Mode mode = CollectionLog::Mode::kMustExist) {
    log_.reset();
    auto opened = CollectionLog::Open(folder_.path(), SmallLogFormat(), mode);
    ASSERT_TRUE(opened.ok()) << opened.status();
    log_ = *std::move(opened);
  }
  void Create() { Open(CollectionLog::Mode::kCreate); }
  std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

  TemporaryFolder folder_;
  std::unique_ptr<CollectionLog> log_;
};

}  // namespace maxsim::collection
