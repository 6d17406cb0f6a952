#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/write/commands.h"

namespace maxsim::ctl {
namespace {

absl::Status RunUnload(const std::string& name, bool remove_settings, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::UnloadCollectionRequest request;
  request.set_name(name);
  request.set_remove_settings(remove_settings);
  const absl::StatusOr<v1::UnloadCollectionResponse> response = (*client)->UnloadCollection(request);
  if (!response.ok()) return context.AddAdminAdvice(response.status());
  if (context.options.json) {
    context.Print({{"unloaded", name}});
  } else {
    context.out() << "unloaded " << command_line::WithoutControls(name) << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

void AddUnload(CLI::App& app, Context& context) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("unload", "Stop serving a collection and free its memory");
  command->add_option("name", *name, "Collection")->required()->type_name("NAME");
  auto remove_settings = std::make_shared<bool>(false);
  command->add_flag("--remove-settings", *remove_settings,
                    "Also remove the settings that servers share in NATS, so that none creates the collection again; a "
                    "router does so for every live collection");
  command->callback(
      [name, remove_settings, &context] { context.result = RunUnload(*name, *remove_settings, context); });
}

}  // namespace maxsim::ctl
