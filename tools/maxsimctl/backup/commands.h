// The command that copies a live collection: `maxsimctl snapshot`, to a folder of the server or to object storage.
#pragma once

#include "CLI/CLI.hpp"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

// Adds the subcommand to `app`. It sets context.result when it runs.
void AddSnapshot(CLI::App& app, Context& context);

}  // namespace maxsim::ctl
