// The commands that measure or check answers, one per file. Each function adds a subcommand to `app`, which sets
// context.result when it runs. If a command itself finds a usage error, it throws CLI::ValidationError, as CLI11 does.
#pragma once

#include "CLI/CLI.hpp"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

void AddVerify(CLI::App& app, Context& context);
void AddEvaluate(CLI::App& app, Context& context);
void AddCompareRuns(CLI::App& app, Context& context);

}  // namespace maxsim::ctl
