// The commands that measure or check answers, one a file. Each function adds a subcommand to `app`, which
// sets context.result when it runs. A usage error that only the command can see is thrown as CLI::ValidationError, like
// CLI11's own.
#pragma once

#include "CLI/CLI.hpp"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

void AddVerify(CLI::App& app, Context& context);
void AddEvaluate(CLI::App& app, Context& context);
void AddCompareRuns(CLI::App& app, Context& context);

}  // namespace maxsim::ctl
