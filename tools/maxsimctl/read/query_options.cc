#include "tools/maxsimctl/read/query_options.h"

#include <limits>

namespace maxsim::ctl {

CLI::Option* AddQueryOrText(CLI::App& command, std::string& query, std::string& text) {
  CLI::Option_group* group = command.add_option_group("Query", "Exactly one of");
  CLI::Option* tokens =
      group->add_option("--query", query, "Query tokens, .npy: [tokens, dim], or many queries (see rerank --help)")
          ->type_name("FILE");
  group->add_option("--text", text, "The question itself, which the server's encoder turns into vectors")
      ->check(CLI::Validator([](std::string& given) { return given.empty() ? "it is empty" : std::string(); }, ""))
      ->type_name("TEXT");
  group->require_option(1);
  return tokens;
}

void AddQueryChoice(CLI::App& command, std::string& query_lengths, int64_t& query_index) {
  command.add_option("--query-lengths", query_lengths, "Tokens of each query in --query, .npy of integers")
      ->type_name("FILE");
  command.add_option("--query-index", query_index, "Which query of --query, from 0")
      ->check(CLI::Range(int64_t{0}, int64_t{std::numeric_limits<int32_t>::max()}))
      ->capture_default_str()
      ->type_name("N");
}

}  // namespace maxsim::ctl
