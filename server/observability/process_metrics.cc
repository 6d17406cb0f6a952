#include "server/observability/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/open_descriptors.h"

namespace maxsim {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

MetricFamily Series(std::string name, std::string help, MetricType type, double value) {
  MetricFamily family;
  family.name = std::move(name);
  family.help = std::move(help);
  family.type = type;
  prometheus::ClientMetric metric;
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
  family.metric.push_back(std::move(metric));
  return family;
}

// Returns the time at which the machine booted, in seconds since the epoch. Returns 0 if /proc/stat does not have it.
double BootTimeSeconds() {
  const std::string text = ReadAll("/proc/stat");
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    double seconds = 0;
    if (absl::StartsWith(line, "btime ") && absl::SimpleAtod(line.substr(6), &seconds)) return seconds;
  }
  return 0;
}

}  // namespace

bool ParseProcStat(std::string_view text, ProcStat* stat) {
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos) return false;
  // proc(5) counts fields from 1. The first field after the name is the state, field 3.
  constexpr int kFirstField = 3;
  const std::vector<std::string> fields =
      absl::StrSplit(std::string(text.substr(name_end + 1)), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  auto field = [&](size_t number, double* value) {
    const size_t idx = number - kFirstField;
    return idx < fields.size() && absl::SimpleAtod(fields[idx], value);
  };
  return field(14, &stat->user_ticks) && field(15, &stat->system_ticks) && field(20, &stat->num_threads) &&
         field(22, &stat->start_ticks) && field(23, &stat->virtual_bytes) && field(24, &stat->resident_pages);
}

std::vector<MetricFamily> CollectProcessMetrics() {
  std::vector<MetricFamily> families;
  const double ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  ProcStat stat;
  if (ParseProcStat(ReadAll("/proc/self/stat"), &stat)) {
    families.push_back(Series("process_cpu_seconds_total", "User and system CPU time.", MetricType::Counter,
                              (stat.user_ticks + stat.system_ticks) / ticks_per_second));
    families.push_back(Series("process_resident_memory_bytes", "Resident memory.", MetricType::Gauge,
                              stat.resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE))));
    families.push_back(
        Series("process_virtual_memory_bytes", "Virtual memory.", MetricType::Gauge, stat.virtual_bytes));
    families.push_back(Series("process_threads", "Threads.", MetricType::Gauge, stat.num_threads));
    if (const double boot = BootTimeSeconds(); boot > 0) {
      families.push_back(Series("process_start_time_seconds", "Start of the process, seconds since the epoch.",
                                MetricType::Gauge, boot + stat.start_ticks / ticks_per_second));
    }
  }
  if (const std::optional<int64_t> count = CountOpenDescriptors(); count.has_value()) {
    families.push_back(
        Series("process_open_fds", "Open file descriptors.", MetricType::Gauge, static_cast<double>(*count)));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    families.push_back(Series("process_max_fds", "File descriptors that may be open.", MetricType::Gauge,
                              static_cast<double>(limit.rlim_cur)));
  }
  return families;
}

}  // namespace maxsim
