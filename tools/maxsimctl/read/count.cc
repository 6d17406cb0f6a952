#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/text.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/read/commands.h"

namespace maxsim::ctl {
namespace {

constexpr uint32_t kMaxFacetValues = 65'536;  // the server's own limit

struct CountOptions {
  std::string collection, field, filter;
  uint32_t limit = 10;
  uint64_t min_sequence = 0;
};

void AddCounted(CLI::App& command, CountOptions& options) {
  command.add_option("collection", options.collection, "Collection")->required()->type_name("COLLECTION");
}

void AddWhichDocuments(CLI::App& command, CountOptions& options) {
  command
      .add_option("--filter", options.filter,
                  "Count only the documents that match, such as: lang = \"en\" and year >= 2020")
      ->type_name("TEXT");
  command.add_option("--min-sequence", options.min_sequence, "Sequence number of a write that must have been seen")
      ->type_name("N");
}

// Returns the request for the collection and the filter of the command line.
template <typename Request>
Request CountRequestOf(const CountOptions& options) {
  Request request;
  request.set_collection(options.collection);
  if (!options.filter.empty()) request.set_filter_text(options.filter);
  request.set_min_sequence(options.min_sequence);
  return request;
}

absl::Status RunCount(const CountOptions& options, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::CountResponse> found = (*client)->Count(CountRequestOf<v1::CountRequest>(options));
  if (!found.ok()) return context.AddAdvice(found.status());
  if (context.options.json) {
    context.Print({{"count", found->count()}, {"generation", found->generation()}, {"sequence", found->sequence()}});
  } else {
    context.out() << found->count() << '\n';
  }
  return absl::OkStatus();
}

void PrintFacetsJson(const v1::FacetsResponse& found, const Context& context) {
  Json values = Json::array();
  for (const v1::FacetValue& value : found.values()) {
    values.push_back({{"value", value.value()}, {"count", value.count()}});
  }
  context.Print({{"values", std::move(values)},
                 {"num_values", found.num_values()},
                 {"num_documents", found.num_documents()},
                 {"generation", found.generation()},
                 {"sequence", found.sequence()}});
}

absl::Status RunFacets(const CountOptions& options, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  auto request = CountRequestOf<v1::FacetsRequest>(options);
  request.set_field(options.field);
  request.set_limit(options.limit);
  const absl::StatusOr<v1::FacetsResponse> found = (*client)->Facets(request);
  if (!found.ok()) return context.AddAdvice(found.status());
  if (context.options.json) {
    PrintFacetsJson(*found, context);
    return absl::OkStatus();
  }
  command_line::Table table({{"documents", command_line::Align::kRight}, {"value"}});
  for (const v1::FacetValue& value : found->values()) {
    table.AddRow({std::to_string(value.count()), command_line::WithoutControls(value.value())});
  }
  table.Print(context.out(), context.out_is_terminal() ? context.columns() : 0);
  context.err() << Cat(found->values_size(), " of ", found->num_values(), " values, ", found->num_documents(),
                       " documents\n");
  return absl::OkStatus();
}

}  // namespace

void AddCount(CLI::App& app, Context& context) {
  auto options = std::make_shared<CountOptions>();
  CLI::App* command = app.add_subcommand("count", "Print how many documents of a collection match a filter");
  AddCounted(*command, *options);
  AddWhichDocuments(*command, *options);
  command->footer("Example: maxsimctl count notes --filter 'lang = \"en\" and year >= 2020'");
  command->callback([options, &context] { context.result = RunCount(*options, context); });
}

void AddFacets(CLI::App& app, Context& context) {
  auto options = std::make_shared<CountOptions>();
  CLI::App* command =
      app.add_subcommand("facets", "Print how many documents of a collection have each value of a field");
  AddCounted(*command, *options);
  command->add_option("field", options->field, "Field of kind keyword or keywords")->required()->type_name("FIELD");
  AddWhichDocuments(*command, *options);
  command->add_option("--limit", options->limit, "Values to print, those with the highest counts")
      ->check(CLI::Range(uint32_t{1}, kMaxFacetValues))
      ->capture_default_str()
      ->type_name("N");
  command->footer("Example: maxsimctl facets notes lang --filter 'year >= 2020' --limit 5");
  command->callback([options, &context] { context.result = RunFacets(*options, context); });
}

}  // namespace maxsim::ctl
