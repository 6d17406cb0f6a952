// Shared by the subcommands of maxsim-shard: exit codes, interrupts, messages and common flags.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/stop.h"
#include "collection/build/builder.h"
#include "collection/manifest.h"
#include "collection/quantization_loss.h"
#include "tools/maxsim-shard/progress.h"

namespace maxsim::shard_tool {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInterrupted = 130;

// Installs the signal handlers. After the first Ctrl-C or SIGTERM, Interrupted() returns true, so that a command can
// clean up. A second signal kills the process. Also ignores SIGXFSZ: a write beyond the file size limit then returns an
// error, as on a full disk.
void CatchInterrupts();
bool Interrupted();
// Returns the signal that stops when Interrupted() begins to return true.
const StopSignal& InterruptSignal();

// Shows the progress of a build. Returns CANCELLED if the user has interrupted the build before it was published.
absl::Status ShowProgress(ProgressDisplay& display, const collection::BuildProgress& progress);

// For a subcommand's callback. If `status` is an error, throws the exception with which CLI11 reports a wrong command
// line.
void RequireUsage(const absl::Status& status);

// Prints the message and returns the exit code for it.
int Fail(const absl::Status& status);

// Returns the time since `began` as text for people.
std::string Elapsed(absl::Time began);

// Returns a summary: "wiki: generation 2 of "wiki": 5,000 documents, 621,042 tokens x 128 f16, 155.9 MiB in 1 shard".
// The summary of a partition has its slots after the name: "... of "wiki", slots 0 .. 1364: ...".
std::string Describe(const std::string& folder, const collection::Manifest& manifest);

// Prints one line per folder, which summarises its collection. The last line also has the time since `began`.
void PrintBuilt(const std::vector<collection::PartitionFolder>& folders,
                const std::vector<collection::Manifest>& manifests, absl::Time began);

// Prints a warning if INT8 storage represents some tokens badly (QuantizationLoss). `what` names the collection and
// begins the warning.
void WarnOfLoss(const std::string& what, const collection::QuantizationLoss& loss);

// Adds the flag --refuse-lossy (BuildOptions).
void AddRefuseLossy(CLI::App& app, bool& refuse);

// Add the flags --seed and --threads. The description of --seed begins with `what`; that of --threads is `what`.
void AddSeed(CLI::App& app, int64_t& seed, const std::string& what);
void AddThreads(CLI::App& app, int& threads, const std::string& what);

// Adds --codes, a number of planes or 0. `what` is the description.
CLI::Option* AddCodes(CLI::App& app, int& planes, const std::string& what);

// Adds --max-shard-bytes (BuildOptions), a size in the format of maxsimd's configuration.
void AddMaxShardBytes(CLI::App& app, int64_t& bytes);

// Adds --allow-other-shape (BuildOptions).
void AddAllowOtherShape(CLI::App& app, bool& allow);

}  // namespace maxsim::shard_tool
