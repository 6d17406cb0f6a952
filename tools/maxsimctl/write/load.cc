#include "tools/maxsimctl/context/collection_view.h"
#include "tools/maxsimctl/write/commands.h"

namespace maxsim::ctl {
namespace {

struct LoadOptions {
  std::string name, path, residency = "auto";
  bool replicate = false, live = false;
};

absl::Status RunLoad(const LoadOptions& options, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::LoadCollectionRequest request;
  request.set_name(options.name);
  request.set_path(options.path);
  request.set_residency(options.residency);
  request.set_replicate(options.replicate);
  request.set_live(options.live);
  const absl::StatusOr<v1::LoadCollectionResponse> response = (*client)->LoadCollection(request);
  if (!response.ok()) return NameAllowedRoots(context.AddAdminAdvice(response.status()));
  if (context.options.json) {
    context.Print(ToJson(response->collection()));
  } else {
    context.out() << "loaded " << Summary(response->collection()) << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

void AddLoad(CLI::App& app, Context& context) {
  auto options = std::make_shared<LoadOptions>();
  CLI::App* command = app.add_subcommand("load", "Load a collection from a folder on the server's machine");
  command->add_option("name", options->name, "Name to serve it under")->required()->type_name("NAME");
  command->add_option("path", options->path, "Folder with a collection.json, under a root the server allows")
      ->required()
      ->type_name("PATH");
  command->add_option("--residency", options->residency, "Where its tokens are held: auto, gpu, host or disk")
      ->capture_default_str()
      ->type_name("TIER");
  command->add_flag("--replicate", options->replicate, "Copy it to every device of the server");
  command->add_flag("--live", options->live, "Accept writes; a collection that has a log of them does so anyway");
  command->footer("Example: maxsimctl load passages /var/lib/maxsim/passages");
  command->callback([options, &context] { context.result = RunLoad(*options, context); });
}

}  // namespace maxsim::ctl
