// The commands that change nothing, one per file; count.cc has the two that count. Each function adds a subcommand to
// `app`, which sets context.result when it runs. If a command itself finds a usage error, it throws
// CLI::ValidationError, as CLI11 does.
#pragma once

#include "CLI/CLI.hpp"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

void AddRerank(CLI::App& app, Context& context);
void AddExplain(CLI::App& app, Context& context);
void AddInfo(CLI::App& app, Context& context);
void AddCollections(CLI::App& app, Context& context);
void AddGet(CLI::App& app, Context& context);
void AddScroll(CLI::App& app, Context& context);
void AddCount(CLI::App& app, Context& context);
void AddFacets(CLI::App& app, Context& context);

}  // namespace maxsim::ctl
