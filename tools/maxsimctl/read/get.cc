#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/context/document_ids.h"
#include "tools/maxsimctl/read/commands.h"
#include "tools/maxsimctl/read/stored_document.h"

namespace maxsim::ctl {
namespace {

constexpr int kReadPerRequest = 1000;  // the server's own limit
// A request for vectors has fewer ids, so that an answer with long documents stays far below gRPC's limit.
constexpr int kReadWithTokensPerRequest = 20;

struct GetOptions {
  DocumentIds ids;
  bool tokens = false;
  uint64_t min_sequence = 0;
};

absl::Status PrintDocumentJson(const v1::GetResponse& found, const Context& context) {
  Json documents = Json::array(), missing = Json::array();
  for (const v1::StoredDocument& document : found.documents()) {
    absl::StatusOr<Json> json = StoredDocumentJson(document);
    if (!json.ok()) return json.status();
    documents.push_back(*std::move(json));
  }
  for (const std::string& id : found.missing_string_ids().ids()) missing.push_back(id);
  for (const int64_t id : found.missing_int_ids().ids()) missing.push_back(id);
  context.Print({{"generation", found.generation()},
                 {"sequence", found.sequence()},
                 {"documents", std::move(documents)},
                 {"missing", std::move(missing)}});
  return absl::OkStatus();
}

// Prints the vectors of each document below the table, one token per line.
absl::Status PrintDocumentTokens(const v1::GetResponse& found, const Context& context) {
  for (const v1::StoredDocument& document : found.documents()) {
    const absl::StatusOr<std::vector<float>> values = StoredValues(document);
    if (!values.ok()) return values.status();
    context.out() << '\n' << command_line::WithoutControls(StoredIdText(document)) << '\n';
    const size_t dim = document.tokens().dim();
    for (size_t token = 0; token < document.tokens().num_tokens(); ++token) {
      context.out() << absl::StrJoin(values->begin() + static_cast<ptrdiff_t>(token * dim),
                                     values->begin() + static_cast<ptrdiff_t>((token + 1) * dim), " ",
                                     [](std::string* text, float value) { *text += Cat(Shortest(value)); })
                    << '\n';
    }
  }
  return absl::OkStatus();
}

absl::Status PrintDocumentTable(const v1::GetResponse& found, bool with_tokens, const std::string& name,
                                const Context& context) {
  command_line::Table table({{"id"},
                             {"tokens", command_line::Align::kRight},
                             {"version", command_line::Align::kRight},
                             {"sequence", command_line::Align::kRight},
                             {"payload"}});
  for (const v1::StoredDocument& document : found.documents()) {
    table.AddRow({command_line::WithoutControls(StoredIdText(document)), std::to_string(document.num_tokens()),
                  document.version() == 0 ? "" : std::to_string(document.version()),
                  std::to_string(document.sequence()), command_line::WithoutControls(document.payload())});
  }
  table.Print(context.out(), context.out_is_terminal() ? context.columns() : 0);
  if (with_tokens) {
    if (absl::Status status = PrintDocumentTokens(found, context); !status.ok()) return status;
  }
  std::vector<std::string> missing(found.missing_string_ids().ids().begin(), found.missing_string_ids().ids().end());
  for (const int64_t id : found.missing_int_ids().ids()) missing.push_back(std::to_string(id));
  if (!missing.empty()) {
    context.err() << command_line::WithoutControls(Cat("not in the collection: ", absl::StrJoin(missing, ", ")))
                  << '\n';
  }
  context.err() << command_line::WithoutControls(
                       Cat("collection ", name, ", generation ", found.generation(), ", sequence ", found.sequence()))
                << '\n';
  return absl::OkStatus();
}

absl::Status RunGet(const GetOptions& options, Context& context) {
  v1::GetRequest request;
  request.set_return_tokens(options.tokens);
  request.set_min_sequence(options.min_sequence);
  v1::GetResponse found;
  const auto send = [&](client::Client& client, const v1::GetRequest& part) {
    const absl::StatusOr<v1::GetResponse> response = client.Get(part);
    if (!response.ok()) return context.AddAdvice(response.status());
    found.MergeFrom(*response);
    return absl::OkStatus();
  };
  const int max_ids = options.tokens ? kReadWithTokensPerRequest : kReadPerRequest;
  if (absl::Status status = SendForIds(options.ids, max_ids, request, context, send); !status.ok()) return status;
  if (context.options.json) return PrintDocumentJson(found, context);
  return PrintDocumentTable(found, options.tokens, options.ids.collection, context);
}

}  // namespace

void AddGet(CLI::App& app, Context& context) {
  auto options = std::make_shared<GetOptions>();
  CLI::App* command = app.add_subcommand("get", "Print documents as a collection holds them");
  AddDocumentIds(*command, options->ids);
  command->add_flag("--tokens", options->tokens,
                    "Print token vectors too; those of an i8 collection are quantised and rotated");
  command->add_option("--min-sequence", options->min_sequence, "Sequence number of a write that must have been seen")
      ->type_name("N");
  command->footer("Example: maxsimctl get notes a b --json");
  command->callback([options, &context] {
    CheckDocumentIds(options->ids);
    context.result = RunGet(*options, context);
  });
}

}  // namespace maxsim::ctl
