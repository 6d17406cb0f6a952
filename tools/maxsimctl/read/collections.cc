#include "tools/maxsimctl/context/collection_view.h"
#include "tools/maxsimctl/read/commands.h"

namespace maxsim::ctl {
namespace {

absl::Status RunCollections(Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::ListCollectionsResponse> response = (*client)->ListCollections();
  if (!response.ok()) return context.AddAdvice(response.status());
  if (!context.options.json) {
    PrintCollections(response->collections(), context);
    return absl::OkStatus();
  }
  Json list = Json::array();
  for (const v1::CollectionInfo& collection : response->collections()) list.push_back(ToJson(collection));
  context.Print(list);
  return absl::OkStatus();
}

}  // namespace

void AddCollections(CLI::App& app, Context& context) {
  CLI::App* command = app.add_subcommand("collections", "List the server's collections");
  command->callback([&context] { context.result = RunCollections(context); });
}

}  // namespace maxsim::ctl
