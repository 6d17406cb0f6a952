// Code that the benchmark programs share: how they end on an error, and how their reports describe the run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::bench {

// Prints the program's name and `status` on the standard error, and ends the process with exit code 1.
[[noreturn]] void Fail(const absl::Status& status);

// Returns the value, or ends the process by Fail.
template <class T>
T OrFail(absl::StatusOr<T> value) {
  if (!value.ok()) Fail(value.status());
  return *std::move(value);
}

// Returns the date in UTC, such as "2026-01-31".
std::string Date();

// Returns the command line that the program was started with, without the folder of the program.
std::string CommandLine(int argc, const char* const* argv);

// Writes `report` to the file `path`, which is replaced, or ends the process by Fail.
void WriteReport(const std::string& path, const nlohmann::ordered_json& report);

}  // namespace maxsim::bench
