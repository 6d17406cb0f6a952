#include "server/shard/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/shard/text.h"

namespace maxsim::shard {
namespace {

constexpr int kBarWidth = 24;
constexpr absl::Duration kBarInterval = absl::Milliseconds(100);
constexpr absl::Duration kLineInterval = absl::Seconds(5);

std::string FormatSeconds(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole >= 3600) return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
  return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
}

bool IsWriting(BuildProgress::Stage stage) { return stage != BuildProgress::Stage::kReading; }

}  // namespace

ProgressDisplay::Style ProgressDisplay::ChooseStyle(std::FILE* stream, bool quiet) {
  if (quiet) return Style::kNone;
  return ::isatty(::fileno(stream)) == 1 ? Style::kBar : Style::kLines;
}

ProgressDisplay::ProgressDisplay(std::FILE* stream, Style style)
    : stream_(stream), style_(style), stage_began_(absl::Now()) {
  // The first line comes after an interval: a build that is over before has its summary.
  if (style_ == Style::kLines) last_shown_ = stage_began_;
}

ProgressDisplay::~ProgressDisplay() {
  if (bar_open_) std::fputc('\n', stream_);
}

void ProgressDisplay::Show(const BuildProgress& progress) {
  if (style_ == Style::kNone) return;
  const absl::Time now = absl::Now();
  if (IsWriting(progress.stage) != IsWriting(stage_)) {
    stage_began_ = now;
    if (bar_open_) std::fputc('\n', stream_);
    bar_open_ = false;
    last_shown_ = style_ == Style::kBar ? absl::InfinitePast() : now;
  }
  stage_ = progress.stage;
  const bool last = stage_ == BuildProgress::Stage::kPublished && style_ == Style::kBar;
  if (!last && now - last_shown_ < (style_ == Style::kBar ? kBarInterval : kLineInterval)) return;
  last_shown_ = now;
  const double seconds = absl::ToDoubleSeconds(now - stage_began_);
  if (style_ == Style::kLines) {
    std::fprintf(stream_, "%s\n", Format(progress, seconds, 0).c_str());
    return;
  }
  std::fprintf(stream_, "\r%s\x1b[K", Format(progress, seconds, kBarWidth).c_str());
  std::fflush(stream_);
  bar_open_ = true;
}

std::string ProgressDisplay::Format(const BuildProgress& progress, double seconds, int bar_width) {
  const bool writing = IsWriting(progress.stage);
  const int64_t done = writing ? progress.bytes_done : progress.documents_done;
  const int64_t total = writing ? progress.bytes_total : progress.documents_total;
  const double share = total > 0 ? std::min(1.0, static_cast<double>(done) / static_cast<double>(total)) : 0;
  std::string text = writing ? "writing  " : "reading  ";
  if (bar_width > 0) {
    const int filled = static_cast<int>(share * bar_width);
    absl::StrAppend(&text, "[", std::string(static_cast<size_t>(filled), '='), filled < bar_width ? ">" : "",
                    std::string(static_cast<size_t>(std::max(0, bar_width - filled - 1)), ' '), "]  ");
  }
  absl::StrAppendFormat(&text, "%3d%%  %s/%s documents", static_cast<int>(share * 100),
                        FormatCount(progress.documents_done), FormatCount(progress.documents_total));
  if (!writing || seconds <= 0) return text;
  absl::StrAppendFormat(&text, "  %.1f MB/s", static_cast<double>(done) / seconds / 1e6);
  if (share >= 1) {
    absl::StrAppend(&text, "  done in ", FormatSeconds(seconds));
  } else if (share > 0) {
    absl::StrAppend(&text, "  ", FormatSeconds(seconds * (1 - share) / share), " left");
  }
  return text;
}

}  // namespace maxsim::shard
