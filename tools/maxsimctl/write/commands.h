// The commands that change collections or documents, one a file. Each function adds a subcommand to `app`, which
// sets context.result when it runs. A usage error that only the command can see is thrown as CLI::ValidationError, like
// CLI11's own.
#pragma once

#include "CLI/CLI.hpp"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

void AddLoad(CLI::App& app, Context& context);
void AddReload(CLI::App& app, Context& context);
void AddUnload(CLI::App& app, Context& context);
void AddCreate(CLI::App& app, Context& context);
void AddUpsert(CLI::App& app, Context& context);
void AddDelete(CLI::App& app, Context& context);
void AddCompact(CLI::App& app, Context& context);
void AddSnapshot(CLI::App& app, Context& context);

}  // namespace maxsim::ctl
