#include "tools/maxsim-shard/read_commands.h"

#include <cstdio>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "collection/inspection/inspect.h"
#include "collection/inspection/verifier.h"
#include "collection/log/log_summary.h"
#include "collection/manifest.h"
#include "tools/maxsim-shard/command_helpers.h"

namespace maxsim::shard_tool {
namespace {

// Adds what is wrong with the log of a live collection to the report.
void AddLogProblems(const std::string& folder, bool quiet, collection::VerifyReport& report) {
  const absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(folder);
  if (!manifest.ok()) return;  // The report describes a generation that has been replaced since.
  const absl::StatusOr<collection::LogReport> log = collection::VerifyLog(folder, *manifest);
  if (!log.ok()) {
    ++report.num_problems;
    report.problems.push_back(std::string(log.status().message()));
    return;
  }
  report.num_problems += log->num_problems;
  report.problems.insert(report.problems.end(), log->problems.begin(), log->problems.end());
  if (quiet) return;
  std::printf("log  %s  %s\n", collection::DescribeWrites(log->first_sequence, log->last_sequence).c_str(),
              log->num_problems == 0
                  ? "ok"
                  : Cat(log->num_problems, log->num_problems == 1 ? " PROBLEM" : " PROBLEMS").c_str());
}

}  // namespace

int RunInspect(const std::string& folder, bool json) {
  absl::StatusOr<collection::CollectionSummary> summary = collection::Inspect(folder);
  if (!summary.ok()) return Fail(summary.status());
  if (collection::HasLog(folder)) {
    const absl::StatusOr<collection::LogSummary> log = collection::SummarizeLog(folder, summary->manifest);
    if (!log.ok()) return Fail(log.status());
    summary->log = {log->first_sequence, log->last_sequence, log->num_bytes, log->num_tombstones()};
  }
  std::fputs(json ? collection::FormatJson(*summary).c_str() : collection::FormatTable(*summary).c_str(), stdout);
  return kExitOk;
}

int RunVerify(const std::string& folder, bool quiet) {
  const absl::Time began = MonotonicNow();
  collection::Tombstones tombstones;
  if (collection::HasLog(folder)) {
    const absl::StatusOr<collection::Manifest> manifest = collection::ReadManifest(folder);
    if (!manifest.ok()) return Fail(manifest.status());
    // An unreadable log is a separate problem, which is reported below.
    absl::StatusOr<collection::LogSummary> log = collection::SummarizeLog(folder, *manifest);
    if (log.ok()) tombstones = std::move(log->tombstones);
  }
  absl::StatusOr<collection::VerifyReport> report = collection::VerifyCollection(
      folder,
      [&](const collection::ShardReport& shard) {
        if (!quiet) std::printf("%s\n", collection::FormatLine(shard).c_str());
        std::fflush(stdout);
      },
      &tombstones);
  if (!report.ok()) return Fail(report.status());
  const absl::StatusOr<collection::Manifest> published = collection::ReadManifest(folder);
  const absl::Status log_is_there = published.ok() ? collection::CheckLogIsThere(folder, *published) : absl::OkStatus();
  if (collection::HasLog(folder)) {
    AddLogProblems(folder, quiet, *report);
  } else if (!log_is_there.ok()) {
    ++report->num_problems;
    report->problems.push_back(std::string(log_is_there.message()));
  }
  WarnOfLoss(folder, report->loss);
  for (const std::string& problem : report->problems) std::fprintf(stderr, "problem: %s\n", problem.c_str());
  if (report->num_problems > static_cast<int64_t>(report->problems.size())) {
    std::fprintf(stderr, "problem: ... and %s more\n",
                 FormatCount(report->num_problems - static_cast<int64_t>(report->problems.size())).c_str());
  }
  std::printf("%s: %s documents, %s tokens, %s in %s %s read in %s: %s\n", folder.c_str(),
              FormatCount(report->num_documents).c_str(), FormatCount(report->num_tokens).c_str(),
              FormatBytes(report->num_bytes).c_str(), FormatCount(report->num_shards).c_str(),
              report->num_shards == 1 ? "shard" : "shards", Elapsed(began).c_str(),
              report->num_problems == 0
                  ? "no problem found"
                  : Cat(report->num_problems, report->num_problems == 1 ? " PROBLEM" : " PROBLEMS").c_str());
  return report->num_problems == 0 ? kExitOk : kExitFailed;
}

}  // namespace maxsim::shard_tool
