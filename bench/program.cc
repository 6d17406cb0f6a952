#include "bench/program.h"

#include <errno.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace maxsim::bench {

void Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, status.ToString().c_str());
  std::exit(1);
}

std::string Date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d", &utc);
  return text;
}

std::string CommandLine(int argc, const char* const* argv) {
  std::string line = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  for (int idx = 1; idx < argc; ++idx) absl::StrAppend(&line, " ", argv[idx]);
  return line;
}

void WriteReport(const std::string& path, const nlohmann::ordered_json& report) {
  std::ofstream file(path);
  file << report.dump(1) << "\n";
  if (!file.flush()) Fail(absl::UnavailableError(absl::StrCat("cannot write ", path)));
}

}  // namespace maxsim::bench
