#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/maxsimctl/collection_view.h"
#include "tools/maxsimctl/commands.h"

namespace maxsim::ctl {
namespace {

struct LoadOptions {
  std::string name, path, residency = "auto";
  bool replicate = false;
};

// Names the key that a refused path wants; the server only says which folders it has.
absl::Status NameAllowedRoots(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kPermissionDenied ||
      !absl::StrContains(status.message(), "store.allowed_roots")) {
    return status;
  }
  return absl::PermissionDeniedError(
      absl::StrCat(status.message(),
                   "; add a folder that holds it to store.allowed_roots in the configuration of the "
                   "server, and start it again"));
}

absl::Status RunLoad(const LoadOptions& options, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::LoadCollectionRequest request;
  request.set_name(options.name);
  request.set_path(options.path);
  request.set_residency(options.residency);
  request.set_replicate(options.replicate);
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
  command->footer("Example: maxsimctl load passages /var/lib/maxsim/passages");
  command->callback([options, &context] { context.result = RunLoad(*options, context); });
}

}  // namespace maxsim::ctl
