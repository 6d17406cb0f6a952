#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "base/units.h"
#include "client/slot_message.h"
#include "collection/slots.h"
#include "tools/maxsimctl/context/collection_view.h"
#include "tools/maxsimctl/write/commands.h"

namespace maxsim::ctl {
namespace {

// The call's deadline, unless --timeout is longer: a terabyte takes about three hours at 100 MB/s.
constexpr absl::Duration kBootstrapTimeout = absl::Hours(6);

struct BootstrapOptions {
  std::string name, residency = "auto";
  std::vector<std::string> sources;
  collection::SlotRange slots;
};

absl::Status RunBootstrap(const BootstrapOptions& options, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::BootstrapCollectionRequest request;
  request.set_name(options.name);
  for (const std::string& source : options.sources) request.add_sources(source);
  request.set_residency(options.residency);
  if (!options.slots.is_whole()) *request.mutable_slots() = client::SlotMessageOf(options.slots);
  const absl::Duration timeout = std::max(kBootstrapTimeout, absl::Seconds(context.options.timeout_seconds));
  const auto response = (*client)->BootstrapCollection(request, {.timeout = timeout});
  if (!response.ok()) return NameAllowedRoots(context.AddAdvice(response.status(), timeout));
  if (context.options.json) {
    context.Print({{"collection", ToJson(response->collection())}, {"fetched_bytes", response->fetched_bytes()}});
  } else {
    context.out() << "bootstrapped " << Summary(response->collection()) << ", "
                  << FormatBytes(static_cast<int64_t>(response->fetched_bytes())) << " fetched\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddBootstrap(CLI::App& app, Context& context) {
  auto options = std::make_shared<BootstrapOptions>();
  CLI::App* command =
      app.add_subcommand("bootstrap", "Make a live collection from copies of other servers of its stream");
  command->add_option("name", options->name, "Collection")->required()->type_name("NAME");
  command->add_option("--from", options->sources, "Servers that have the collection, together with all of --slots")
      ->required()
      ->delimiter(',')
      ->type_name("HOST:PORT,...");
  command
      ->add_option_function<std::string>(
          "--slots",
          [options](const std::string& text) {
            absl::StatusOr<collection::SlotRange> slots = collection::ParseSlotRange(text);
            if (!slots.ok()) throw CLI::ValidationError("--slots", std::string(slots.status().message()));
            options->slots = *slots;
          },
          "Slots whose documents the collection has, or partition I of N as I/N; all by default")
      ->type_name("FIRST-LAST");
  command->add_option("--residency", options->residency, "Where its tokens are held: auto, gpu, host or disk")
      ->capture_default_str()
      ->type_name("TIER");
  command->footer(
      "The server (not maxsimctl) connects to the servers of --from, with the token and certificates of its own\n"
      "cluster.* keys. If it serves the collection already, it replaces its copy when the new one has caught up.\n\n"
      "Example: maxsimctl --server c:7070 bootstrap notes --from a:7070");
  command->callback([options, &context] { context.result = RunBootstrap(*options, context); });
}

}  // namespace maxsim::ctl
