// Exports the process metrics that Prometheus' own clients export: process_cpu_seconds_total and the like.
#pragma once

#include <string_view>
#include <vector>

#include "prometheus/metric_family.h"

namespace maxsim {

// Reads /proc/self at the time of the call. A value that cannot be read has no series. Thread-safe.
std::vector<prometheus::MetricFamily> CollectProcessMetrics();

// The fields of /proc/PID/stat that the metrics need.
struct ProcStat {
  double user_ticks = 0;
  double system_ticks = 0;
  double num_threads = 0;
  double start_ticks = 0;
  double virtual_bytes = 0;
  double resident_pages = 0;
};

// Parses the text of /proc/PID/stat; returns false if the text has another form. The command name in it may hold spaces
// and parentheses.
bool ParseProcStat(std::string_view text, ProcStat* stat);

}  // namespace maxsim
