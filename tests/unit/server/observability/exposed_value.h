// Reads values from the text of the metrics, as a collector does.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "server/observability/metrics.h"

namespace maxsim {

// Returns a series's value as it stands in the text of the metrics, or "" if the series does not exist.
inline std::string ValueOf(const Metrics& metrics, const std::string& series) {
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(metrics.Expose(), '\n'))) {
    if (line.rfind(series + " ", 0) == 0) return line.substr(series.size() + 1);
  }
  return "";
}

}  // namespace maxsim
