// Shows the progress of a build: as a bar that is redrawn if the output is a terminal, and otherwise as a line from
// time to time.
#pragma once

#include <cstdio>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "collection/build/builder.h"

namespace maxsim::shard_tool {

class ProgressDisplay {
 public:
  enum class Style { kNone, kLines, kBar };

  // kBar when `stream` is a terminal, else kLines; kNone when quiet.
  static Style ChooseStyle(std::FILE* stream, bool quiet);

  ProgressDisplay(std::FILE* stream, Style style);
  ~ProgressDisplay();  // ends the line of a bar
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void Show(const collection::BuildProgress& progress);

  // Shows how many queries have been compared, after the build.
  void ShowComparison(int64_t done, int64_t total);

  static std::string FormatComparison(int64_t done, int64_t total, double seconds, int bar_width);

  // Returns the text of one update: "writing  [=====>    ]  52%  726/1,398 documents  310.2 MB/s  0:12 left", `seconds`
  // after the stage began. Public for its test.
  static std::string Format(const collection::BuildProgress& progress, double seconds, int bar_width);

 private:
  void ShowStage(int stage, bool last, absl::FunctionRef<std::string(double seconds, int bar_width)> format);

  std::FILE* const stream_;
  const Style style_;
  int stage_ = 0;  // of kReading, kWriting, kComparing
  absl::Time stage_began_;
  absl::Time last_shown_ = absl::InfinitePast();
  bool bar_open_ = false;
};

}  // namespace maxsim::shard_tool
