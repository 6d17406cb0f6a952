#include "tools/maxsimctl/collection_view.h"
#include "tools/maxsimctl/commands.h"

namespace maxsim::ctl {
namespace {

absl::Status RunReload(const std::string& name, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
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
  command->callback([name, &context] { context.result = RunReload(*name, context); });
}

}  // namespace maxsim::ctl
