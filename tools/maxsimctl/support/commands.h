// Has the commands, one a file. Each function adds its subcommand to `app`; when it runs, it sets context.result. A
// usage error that only the command can see is thrown as CLI::ValidationError, like CLI11's own.
#pragma once

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "tools/maxsimctl/support/context.h"

namespace maxsim::ctl {

// Adds --query and --text, of which a command wants exactly one, and returns --query, which options that go with
// vectors alone need.
CLI::Option* AddQueryOrText(CLI::App& command, std::string& query, std::string& text);

// Adds --query-lengths and --query-index to a command that asks with one query of a file.
void AddQueryChoice(CLI::App& command, std::string& query_lengths, int64_t& query_index);

void AddRerank(CLI::App& app, Context& context);
void AddExplain(CLI::App& app, Context& context);
void AddInfo(CLI::App& app, Context& context);
void AddCollections(CLI::App& app, Context& context);
void AddLoad(CLI::App& app, Context& context);
void AddReload(CLI::App& app, Context& context);
void AddUnload(CLI::App& app, Context& context);
void AddCreate(CLI::App& app, Context& context);
void AddUpsert(CLI::App& app, Context& context);
void AddDelete(CLI::App& app, Context& context);
void AddGet(CLI::App& app, Context& context);
void AddCompact(CLI::App& app, Context& context);
void AddSnapshot(CLI::App& app, Context& context);
void AddVerify(CLI::App& app, Context& context);
void AddEvaluate(CLI::App& app, Context& context);
void AddCompareRuns(CLI::App& app, Context& context);

}  // namespace maxsim::ctl
