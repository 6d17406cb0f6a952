#include "tools/maxsim-shard/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"

namespace maxsim::shard_tool {
namespace {

constexpr int kBarWidth = 24;
constexpr absl::Duration kBarInterval = absl::Milliseconds(100);
constexpr absl::Duration kLineInterval = absl::Seconds(5);

std::string FormatSeconds(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole >= 3600) return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
  return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
}

// The phases of a command, in the order in which they are shown.
constexpr int kReading = 0;
constexpr int kWriting = 1;
constexpr int kComparing = 2;

// Returns a bar such as "[==>  ]", or nothing for a width of 0.
std::string Bar(double share, int width) {
  if (width == 0) return "";
  const int filled = static_cast<int>(share * width);
  return absl::StrCat("[", std::string(static_cast<size_t>(filled), '='), filled < width ? ">" : "",
                      std::string(static_cast<size_t>(std::max(0, width - filled - 1)), ' '), "]  ");
}

// Returns a text such as "  done in 0:12" or "  0:03 left".
std::string TimeLeft(double share, double seconds) {
  if (share >= 1) return absl::StrCat("  done in ", FormatSeconds(seconds));
  if (share > 0) return absl::StrCat("  ", FormatSeconds(seconds * (1 - share) / share), " left");
  return "";
}

bool IsWriting(collection::BuildProgress::Stage stage) { return stage != collection::BuildProgress::Stage::kReading; }

}  // namespace

ProgressDisplay::Style ProgressDisplay::ChooseStyle(std::FILE* stream, bool quiet) {
  if (quiet) return Style::kNone;
  return ::isatty(::fileno(stream)) == 1 ? Style::kBar : Style::kLines;
}

ProgressDisplay::ProgressDisplay(std::FILE* stream, Style style)
    : stream_(stream), style_(style), stage_began_(MonotonicNow()) {
  // Writes the first line after one interval, because a shorter build needs only its summary.
  if (style_ == Style::kLines) last_shown_ = stage_began_;
}

ProgressDisplay::~ProgressDisplay() {
  if (bar_open_) std::fputc('\n', stream_);
}

void ProgressDisplay::Show(const collection::BuildProgress& progress) {
  ShowStage(IsWriting(progress.stage) ? kWriting : kReading,
            progress.stage == collection::BuildProgress::Stage::kPublished,
            [&](double seconds, int bar_width) { return Format(progress, seconds, bar_width); });
}

void ProgressDisplay::ShowComparison(int64_t done, int64_t total) {
  ShowStage(kComparing, done == total,
            [&](double seconds, int bar_width) { return FormatComparison(done, total, seconds, bar_width); });
}

// If `last` is true, redraws the bar even if it was drawn just before, so that the last bar is full.
void ProgressDisplay::ShowStage(int stage, bool last,
                                absl::FunctionRef<std::string(double seconds, int bar_width)> format) {
  if (style_ == Style::kNone) return;
  const absl::Time now = MonotonicNow();
  if (stage != stage_) {
    stage_ = stage;
    stage_began_ = now;
    if (bar_open_) std::fputc('\n', stream_);
    bar_open_ = false;
    last_shown_ = style_ == Style::kBar ? absl::InfinitePast() : now;
  }
  if (!(last && style_ == Style::kBar) && now - last_shown_ < (style_ == Style::kBar ? kBarInterval : kLineInterval)) {
    return;
  }
  last_shown_ = now;
  const double seconds = absl::ToDoubleSeconds(now - stage_began_);
  if (style_ == Style::kLines) {
    std::fprintf(stream_, "%s\n", format(seconds, 0).c_str());
    return;
  }
  std::fprintf(stream_, "\r%s\x1b[K", format(seconds, kBarWidth).c_str());
  std::fflush(stream_);
  bar_open_ = true;
}

std::string ProgressDisplay::FormatComparison(int64_t done, int64_t total, double seconds, int bar_width) {
  const double share = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0;
  std::string text = absl::StrCat("comparing  ", Bar(share, bar_width));
  absl::StrAppendFormat(&text, "%3d%%  %s/%s queries", static_cast<int>(share * 100), FormatCount(done),
                        FormatCount(total));
  if (seconds > 0) absl::StrAppend(&text, TimeLeft(share, seconds));
  return text;
}

std::string ProgressDisplay::Format(const collection::BuildProgress& progress, double seconds, int bar_width) {
  const bool writing = IsWriting(progress.stage);
  const int64_t done = writing ? progress.bytes_done : progress.documents_done;
  const int64_t total = writing ? progress.bytes_total : progress.documents_total;
  const double share = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0;
  std::string text = writing ? "writing  " : "reading  ";
  text += Bar(share, bar_width);
  absl::StrAppendFormat(&text, "%3d%%  %s/%s documents", static_cast<int>(share * 100),
                        FormatCount(progress.documents_done), FormatCount(progress.documents_total));
  if (!writing || seconds <= 0) return text;
  absl::StrAppendFormat(&text, "  %.1f MB/s", static_cast<double>(done) / seconds / 1e6);
  return absl::StrCat(text, TimeLeft(share, seconds));
}

}  // namespace maxsim::shard_tool
