#include "collection/log/log_summary.h"

#include <memory>
#include <utility>

#include "base/guard.h"
#include "base/text.h"
#include "collection/document_line.h"
#include "collection/inspection/verifier.h"
#include "collection/log/log_check.h"
#include "collection/log/log_database.h"
#include "collection/log/log_files.h"
#include "collection/log/log_mark.h"
#include "collection/log/log_tombstones.h"
#include "collection/log/log_versions.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {
namespace {

absl::StatusOr<LogSummary> SummarizeOnce(const std::string& folder, const Manifest& manifest) {
  // Reads the mark before the database, so that the database has at least the writes that the mark records.
  const LogMarkContents mark = ReadLogMark(LogFolder(folder));
  absl::StatusOr<LogContents> contents = CheckLog(folder, mark);
  if (!contents.ok()) return contents.status();
  absl::StatusOr<std::unique_ptr<LogDatabase>> database = OpenChecked(LogDatabasePath(folder), mark.files);
  if (!database.ok()) return Prefix(Cat("the log of ", folder, ": "), database.status());
  absl::StatusOr<Tombstones> tombstones = ReadTombstones(**database, manifest);
  if (!tombstones.ok()) return Prefix(Cat("the log of ", folder, ": "), tombstones.status());
  const bool is_streamed = contents->stream.has_value();
  return LogSummary{.format = std::move(contents->format),
                    .first_sequence = contents->first_sequence,
                    .last_sequence = contents->last_sequence,
                    .num_bytes = NumLogBytes(folder),
                    .stream = std::move(contents->stream),
                    .tombstones = *std::move(tombstones),
                    .format_version = contents->format_version,
                    .current_format_version = is_streamed ? kStreamedLogFormatVersion : kLogFormatVersion,
                    .needs_upgrade = contents->needs_upgrade};
}

// Describes the first wrong value of a parsed record; "" if there is none.
std::string ProblemOf(const LogRecord& record, const LogFormat& format) {
  if (record.kind != LogRecord::Kind::kUpsert) return "";
  const size_t num_values = static_cast<size_t>(record.num_tokens) * static_cast<size_t>(format.dim);
  // Copies the rows, because they may be unaligned in a record.
  const std::vector<char> rows(record.rows.begin(), record.rows.end());
  if (const auto index = FindUnusableElement(format.storage, rows.data(), num_values)) {
    const auto dim = static_cast<size_t>(format.dim);
    return Cat("token ", *index / dim, ", column ", *index % dim, ": a value that ", Name(format.storage),
               " may not have");
  }
  if (record.payload.empty()) return "";
  const absl::Status status = CheckPayload(record.payload);
  return status.ok() ? "" : Cat("payload: ", ForStrCat(std::string(status.message())));
}

}  // namespace

int64_t LogSummary::num_tombstones() const {
  int64_t sum = 0;
  for (const std::vector<uint32_t>& of_shard : tombstones) sum += static_cast<int64_t>(of_shard.size());
  return sum;
}

absl::StatusOr<LogSummary> SummarizeLog(const std::string& folder, const Manifest& manifest) {
  if (!HasLog(folder)) return absl::NotFoundError(Cat(folder, ": has no log"));
  return Guarded([&]() -> absl::StatusOr<LogSummary> {
    // Tries again, because a process that writes to the log may delete a file that is about to be read.
    constexpr int kTries = 3;
    absl::StatusOr<LogSummary> summary;
    for (int tried = 0; tried < kTries; ++tried) {
      summary = SummarizeOnce(folder, manifest);
      if (summary.ok()) break;
    }
    return summary;
  });
}

absl::Status CheckShardsAreComplete(const std::string& folder, const Manifest& manifest) {
  if (!HasLog(folder)) return absl::OkStatus();
  const absl::StatusOr<LogSummary> summary = SummarizeLog(folder, manifest);
  if (!summary.ok()) return summary.status();
  constexpr std::string_view kRemedy = "; maxsim-shard compact brings them together, once no server has it loaded";
  const uint64_t held = manifest.log_sequence.value_or(0);
  if (summary->last_sequence > held) {
    return absl::FailedPreconditionError(Cat(folder, ": its log has writes up to sequence ", summary->last_sequence,
                                             ", but its shards hold those up to ", held, kRemedy));
  }
  if (const int64_t count = summary->num_tombstones(); count > 0) {
    return absl::FailedPreconditionError(
        Cat(folder, ": ", count, " documents of its shards were replaced or deleted, as its log says", kRemedy));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<uint64_t>> LogSequenceOfBuild(const std::string& folder, const LogFormat& format,
                                                           std::optional<uint64_t> asked) {
  if (!HasLog(folder)) return asked;
  const absl::StatusOr<LogSummary> summary = SummarizeLog(folder, Manifest());
  if (!summary.ok()) return summary.status();
  if (summary->format != Describe(format)) {
    return absl::FailedPreconditionError(Cat(folder, ": is a live collection of ", summary->format,
                                             ", which it keeps, but the build has ", Describe(format),
                                             "; build it into another folder"));
  }
  const uint64_t first = summary->first_sequence;
  const uint64_t last = summary->last_sequence;
  if (!asked.has_value()) {
    if (last == 0) return std::optional<uint64_t>(0);
    return absl::FailedPreconditionError(Cat(folder, ": is a live collection whose log has had writes up to sequence ",
                                             last,
                                             "; say with --log-sequence which of them this input holds (0 for none)"));
  }
  if (*asked > last) {
    return absl::FailedPreconditionError(
        Cat(folder, ": --log-sequence ", *asked, ", but the last write of its log has sequence ", last));
  }
  if (*asked < first) {
    return absl::FailedPreconditionError(Cat(folder, ": --log-sequence ", *asked,
                                             ", but its log holds only the writes ", "after sequence ", first,
                                             ": those between would be lost"));
  }
  return asked;
}

absl::StatusOr<LogReport> VerifyLog(const std::string& folder, const Manifest& manifest) {
  const absl::StatusOr<LogSummary> summary = SummarizeLog(folder, manifest);
  if (!summary.ok()) return summary.status();
  LogReport report{summary->first_sequence, summary->last_sequence, 0, {}};
  const auto problem = [&](const std::string& text) {
    ++report.num_problems;
    if (report.problems.size() < kMaxProblems) report.problems.push_back(Cat("the log of ", folder, ": ", text));
  };
  const LogFormat format = LogFormat::Of(manifest);
  if (summary->format != Describe(format)) {
    problem(Cat("is one of ", summary->format, ", but the collection has ", Describe(format)));
    return report;
  }
  if (!manifest.log_sequence.has_value() && report.last_sequence > 0) {
    problem("has writes, but the manifest names no log_sequence");
  } else if (manifest.log_sequence.value_or(0) > report.last_sequence) {
    problem(Cat("ends with sequence ", report.last_sequence, ", but the shards hold the writes up to ",
                *manifest.log_sequence));
  } else if (manifest.log_sequence.value_or(0) < report.first_sequence) {
    problem(Cat("has dropped the writes up to ", report.first_sequence, ", but the shards hold those up to ",
                manifest.log_sequence.value_or(0)));
  }
  return Guarded([&]() -> absl::StatusOr<LogReport> {
    absl::StatusOr<std::unique_ptr<LogDatabase>> database =
        OpenChecked(LogDatabasePath(folder), ReadLogMark(LogFolder(folder)).files);
    if (!database.ok()) return Prefix(Cat("the log of ", folder, ": "), database.status());
    // Reads the first and last sequence again, because they may have changed since SummarizeLog.
    const absl::StatusOr<LogContents> contents = ReadContents(**database);
    if (!contents.ok()) return Prefix(Cat("the log of ", folder, ": "), contents.status());
    report.first_sequence = contents->first_sequence;
    report.last_sequence = contents->last_sequence;
    VersionCheck versions(format.id_type);
    // Reads one record at a time, so that the records after a damaged one are checked, too.
    for (uint64_t sequence = report.first_sequence; sequence < report.last_sequence; ++sequence) {
      std::string text;
      const absl::Status read = ReadRecords(**database, format, sequence, sequence + 1, [&](const LogRecord& record) {
        text = ProblemOf(record, format);
        versions.Add(record);
        return absl::OkStatus();
      });
      if (!read.ok()) {
        versions.SkipUnreadable();
        problem(std::string(read.message()));
      }
      if (!text.empty()) problem(Cat("the write with sequence ", sequence + 1, ": ", text));
    }
    versions.Run(**database, *contents, problem);
    return std::move(report);
  });
}

}  // namespace maxsim::collection
