#include "base/text.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/context/collection_view.h"
#include "tools/maxsimctl/write/commands.h"

namespace maxsim::ctl {
namespace {

absl::Status RunSnapshot(const std::string& name, const std::string& path, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::SnapshotCollectionRequest request;
  request.set_name(name);
  request.set_path(path);
  const absl::StatusOr<v1::SnapshotCollectionResponse> response = (*client)->SnapshotCollection(request);
  if (!response.ok()) return NameAllowedRoots(context.AddAdminAdvice(response.status()));
  if (context.options.json) {
    context.Print({{"collection", name}, {"path", path}, {"sequence", response->sequence()}});
  } else {
    context.out() << command_line::WithoutControls(
                         Cat("copied ", name, " to ", path, ", with writes up to sequence ", response->sequence()))
                  << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

void AddSnapshot(CLI::App& app, Context& context) {
  auto name = std::make_shared<std::string>();
  auto path = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("snapshot", "Copy a live collection as it is now to another folder");
  command->add_option("name", *name, "Collection")->required()->type_name("NAME");
  command
      ->add_option("path", *path, "Folder on the server's machine that is not there yet, under a root that it allows")
      ->required()
      ->type_name("PATH");
  command->footer(
      "The copy opens as a collection of its own.\n\n"
      "Example: maxsimctl snapshot notes /var/lib/maxsim/copies/notes-monday");
  command->callback([name, path, &context] { context.result = RunSnapshot(*name, *path, context); });
}

}  // namespace maxsim::ctl
