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

absl::Status RunReload(const std::string& name, bool cluster, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  if (cluster) {
    if (absl::Status status = CheckRouter(**client, context); !status.ok()) return status;
  }
  v1::ReloadCollectionRequest request;
  request.set_name(name);
  const absl::StatusOr<v1::ReloadCollectionResponse> response = (*client)->ReloadCollection(request);
  if (!response.ok()) return context.AddAdminAdvice(response.status());
  if (context.options.json) {
    context.Print({{"changed", response->changed()}, {"collection", ToJson(response->collection())}});
  } else {
    context.out() << (response->changed() ? "reloaded " : "unchanged ") << Summary(response->collection()) << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

void AddReload(CLI::App& app, Context& context) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("reload", "Swap in the generation of a collection that is published now");
  command->add_option("name", *name, "Collection")->required()->type_name("NAME");
  auto cluster = std::make_shared<bool>(false);
  command->add_flag("--cluster", *cluster,
                    "Make sure that the server is a router: it reloads all servers of its groups in two\nwaves, and is "
                    "done when the last one is");
  command->callback([name, cluster, &context] { context.result = RunReload(*name, *cluster, context); });
}

}  // namespace maxsim::ctl
