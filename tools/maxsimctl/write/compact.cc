#include "tools/maxsimctl/context/collection_view.h"
#include "tools/maxsimctl/write/commands.h"

namespace maxsim::ctl {
namespace {

absl::Status RunCompact(const std::string& name, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::CompactCollectionRequest request;
  request.set_name(name);
  const absl::StatusOr<v1::CompactCollectionResponse> response = (*client)->CompactCollection(request);
  if (!response.ok()) return context.AddAdminAdvice(response.status());
  if (context.options.json) {
    context.Print({{"changed", response->changed()}, {"collection", ToJson(response->collection())}});
  } else {
    context.out() << (response->changed() ? "compacted " : "unchanged ") << Summary(response->collection()) << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

void AddCompact(CLI::App& app, Context& context) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      app.add_subcommand("compact", "Write the changes of a live collection into its next generation, and serve it");
  command->add_option("name", *name, "Collection")->required()->type_name("NAME");
  command->callback([name, &context] { context.result = RunCompact(*name, context); });
}

}  // namespace maxsim::ctl
