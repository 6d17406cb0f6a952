// The commands that change collections or documents, one per file. Each function adds a subcommand to `app`, which sets
// context.result when it runs. If a command itself finds a usage error, it throws CLI::ValidationError, as CLI11 does.
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
void AddBootstrap(CLI::App& app, Context& context);

}  // namespace maxsim::ctl
