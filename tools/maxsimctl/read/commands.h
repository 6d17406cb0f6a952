// The commands that change nothing, one a file; count.cc has both that count. Each function adds a subcommand to `app`,
// which sets context.result when it runs. A usage error that only the command can see is thrown as
// CLI::ValidationError, like CLI11's own.
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
