// Makes the one-line message that the programs print for a wrong command line.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

namespace maxsim::command_line {

// Returns CLI11's message. If the command line has an argument that `app`, or its parsed subcommand, does not know,
// names that argument instead. CLI11 alone would answer --quary only with "--query is required", and it lists unknown
// arguments from last to first.
inline std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error) {
  const auto is = [&error](CLI::ExitCodes code) { return error.get_exit_code() == static_cast<int>(code); };
  const bool may_be_misspelt = is(CLI::ExitCodes::RequiredError) || is(CLI::ExitCodes::RequiresError);
  if (!may_be_misspelt && !is(CLI::ExitCodes::ExtrasError)) return error.what();
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const auto is_option = [](const std::string& argument) { return argument.size() > 1 && argument.front() == '-'; };
  if (const auto option = std::find_if(unknown.begin(), unknown.end(), is_option); option != unknown.end()) {
    return "there is no option " + *option;
  }
  return unknown.empty() ? error.what() : "\"" + unknown.front() + "\" was not expected";
}

}  // namespace maxsim::command_line
