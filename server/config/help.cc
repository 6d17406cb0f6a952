#include <string>

#include "absl/strings/str_cat.h"
#include "server/config/keys.h"
#include "server/config/load.h"

namespace maxsim::config {

std::string HelpText() {
  std::string text =
      "maxsimd: exact MaxSim reranking over gRPC.\n"
      "\n"
      "Usage: maxsimd [--config FILE] [--collection NAME=PATH[,RESIDENCY][,replicate][,live]]... [--section.key "
      "VALUE]...\n"
      "\n"
      "  --config FILE         read a YAML file first                     [MAXSIM_CONFIG]\n"
      "  --collection N=PATH   load a collection at start; repeatable; a name of the file's is replaced;\n"
      "                        a path that itself ends in a comma and a word (/data/nyc,usa) can be given in the file "
      "only\n"
      "                        [MAXSIM_COLLECTIONS, several separated by ';']\n"
      "  --backend KIND        short for --backend.kind\n"
      "  --print-config        print the configuration in force as YAML, with the origin of each value, and exit\n"
      "  --check-config        say whether the configuration is valid, and exit\n"
      "  --version, --help\n"
      "\n"
      "Every key of the file is a flag and an environment variable; flags win over the environment, the environment\n"
      "over the file; an empty variable counts as not set. Durations: 250ms, 2s, 1m30s. Sizes: 512MiB, 4GiB. Counts: "
      "4096, 64Mi, 10M.\n";
  std::string section;
  for (const Key& key : Keys()) {
    const std::string of_key = key.name.substr(0, key.name.find('.'));
    if (of_key != section) absl::StrAppend(&text, "\n", section = of_key, "\n");
    const std::string default_value = key.get(Config{});
    absl::StrAppend(&text, "  --", key.name, " <", key.type,
                    ">  (default: ", default_value.empty() ? "empty" : default_value,
                    key.range.empty() ? "" : absl::StrCat("; ", key.range), ")  [", EnvironmentName(key.name), "]\n",
                    "        ", key.help, "\n");
  }
  return text;
}

}  // namespace maxsim::config
