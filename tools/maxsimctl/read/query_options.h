// The options of commands that send one query.
#pragma once

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"

namespace maxsim::ctl {

// Adds --query and --text; the user must give exactly one. Returns --query, so that options which need vectors can
// require it.
CLI::Option* AddQueryOrText(CLI::App& command, std::string& query, std::string& text);

// Adds --query-lengths and --query-index to a command that sends one query of a file.
void AddQueryChoice(CLI::App& command, std::string& query_lengths, int64_t& query_index);

}  // namespace maxsim::ctl
