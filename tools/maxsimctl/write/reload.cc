#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/context/collection_view.h"
#include "tools/maxsimctl/write/commands.h"

namespace maxsim::ctl {
namespace {

// Refuses a server that is not a router, because a reload of a whole cluster must not reach only one of its servers.
absl::Status CheckRouter(client::Client& client, const Context& context) {
  const absl::StatusOr<v1::GetInfoResponse> info = client.GetInfo();
  if (!info.ok()) return context.AddAdvice(info.status());
  if (!info->groups().empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "--cluster: the server is not a router (cluster.groups): it can reload only itself");
}

struct ReloadOptions {
  std::string name;
  bool cluster = false;
  uint64_t generation = 0;  // 0: the published one
  bool roll_back = false;
};

// Returns the generation before the one that is served.
absl::StatusOr<uint64_t> PreviousGeneration(const std::string& name, Context& context) {
  const absl::StatusOr<v1::CollectionInfo> info = context.FindCollection(name);
  if (!info.ok()) return info.status();
  if (info->previous_generation() != 0) return info->previous_generation();
  if (info->has_live()) {
    return absl::FailedPreconditionError(
        absl::StrCat("--roll-back: collection ", name, " is live; to go back, restore a snapshot or a backup"));
  }
  return absl::FailedPreconditionError(absl::StrCat("--roll-back: collection ", name, " serves generation ",
                                                    info->generation(), ", and its folder keeps none before that"));
}

void PrintReload(const v1::ReloadCollectionResponse& response, const Context& context) {
  if (context.options.json) {
    Json not_reached = Json::array();
    for (const std::string& server : response.not_reached()) not_reached.push_back(server);
    context.Print({{"changed", response.changed()},
                   {"collection", ToJson(response.collection())},
                   {"not_reached", std::move(not_reached)}});
    return;
  }
  context.out() << (response.changed() ? "reloaded " : "unchanged ") << Summary(response.collection()) << '\n';
  for (const std::string& server : response.not_reached()) {
    context.out() << "not reached: " << command_line::WithoutControls(server)
                  << "; it gets no requests until it has loaded this generation, which it does when it is back\n";
  }
}

absl::Status RunReload(const ReloadOptions& options, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  if (options.cluster) {
    if (absl::Status status = CheckRouter(**client, context); !status.ok()) return status;
  }
  v1::ReloadCollectionRequest request;
  request.set_name(options.name);
  request.set_generation(options.generation);
  if (options.roll_back) {
    const absl::StatusOr<uint64_t> previous = PreviousGeneration(options.name, context);
    if (!previous.ok()) return previous.status();
    request.set_generation(*previous);
  }
  const absl::StatusOr<v1::ReloadCollectionResponse> response = (*client)->ReloadCollection(request);
  if (!response.ok()) return context.AddAdminAdvice(response.status());
  PrintReload(*response, context);
  return absl::OkStatus();
}

}  // namespace

void AddReload(CLI::App& app, Context& context) {
  auto options = std::make_shared<ReloadOptions>();
  CLI::App* command = app.add_subcommand("reload", "Swap in the generation of a collection that is published now");
  command->add_option("name", options->name, "Collection")->required()->type_name("NAME");
  command->add_flag("--cluster", options->cluster,
                    "Make sure that the server is a router: it reloads all servers of its groups in two\nwaves, and is "
                    "done when the last one is");
  CLI::Option* const generation =
      command
          ->add_option("--generation", options->generation,
                       "Load this generation: the published one, or the one before it")
          ->check(CLI::Range(uint64_t{1}, static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - 1))
          ->type_name("N");
  command
      ->add_flag(
          "--roll-back", options->roll_back,
          "Go back to the generation before the one that is served. The servers serve it until\nthe next reload, "
          "also after a restart")
      ->excludes(generation);
  command->callback([options, &context] { context.result = RunReload(*options, context); });
}

}  // namespace maxsim::ctl
