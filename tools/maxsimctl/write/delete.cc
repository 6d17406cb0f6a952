#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "base/units.h"
#include "client/error_details.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/context/document_ids.h"
#include "tools/maxsimctl/write/commands.h"

namespace maxsim::ctl {
namespace {

// Less than the number of ids that a server accepts, so that a request with long ids stays below the server's
// limits.max_request_bytes.
constexpr int kDeletedPerRequest = 1000;

struct DeleteOptions {
  DocumentIds ids;
  std::string filter;
  uint64_t version = 0;
  uint64_t min_sequence = 0;
};

struct Deleted {
  int64_t num_applied = 0, num_stale = 0;
  std::vector<std::string> not_found;
  uint64_t sequence = 0;
};

std::string DeletedIdText(const v1::DeleteRequest& request, int i) {
  return request.has_int_ids() ? std::to_string(request.int_ids().ids(i)) : request.string_ids().ids(i);
}

absl::Status CountResults(const v1::DeleteRequest& request, const v1::DeleteResponse& response, Deleted& deleted) {
  const int num_ids = request.has_int_ids() ? request.int_ids().ids_size() : request.string_ids().ids_size();
  if (response.results_size() != num_ids) {
    return absl::InternalError(
        Cat("the server's answer is wrong: ", response.results_size(), " results for ", num_ids, " ids"));
  }
  for (int i = 0; i < num_ids; ++i) {
    const v1::WriteOutcome outcome = response.results(i).outcome();
    deleted.num_applied += outcome == v1::WRITE_OUTCOME_APPLIED ? 1 : 0;
    deleted.num_stale += outcome == v1::WRITE_OUTCOME_STALE ? 1 : 0;
    if (outcome == v1::WRITE_OUTCOME_NOT_FOUND) deleted.not_found.push_back(DeletedIdText(request, i));
  }
  deleted.sequence = response.sequence();
  return absl::OkStatus();
}

void PrintDeleted(const Deleted& deleted, const std::string& name, const Context& context) {
  if (context.options.json) {
    context.Print({{"collection", name},
                   {"deleted", deleted.num_applied},
                   {"stale", deleted.num_stale},
                   {"missing", deleted.not_found.size()},
                   {"not_found", deleted.not_found},
                   {"sequence", deleted.sequence}});
    return;
  }
  context.out() << command_line::WithoutControls(Cat("deleted ", FormatCount(deleted.num_applied),
                                                     deleted.num_applied == 1 ? " document" : " documents", " of ",
                                                     name, ", sequence ", deleted.sequence))
                << '\n';
  if (deleted.num_stale > 0) {
    context.err() << Cat(FormatCount(deleted.num_stale), " stale: a version that is not older is there\n");
  }
  if (!deleted.not_found.empty()) {
    std::vector<std::string> shown = deleted.not_found;
    constexpr size_t kShown = 10;
    shown.resize(std::min(shown.size(), kShown));
    context.err() << command_line::WithoutControls(Cat(deleted.not_found.size(),
                                                       deleted.not_found.size() == 1 ? " id is" : " ids are",
                                                       " not in the collection: ", absl::StrJoin(shown, ", "),
                                                       deleted.not_found.size() > kShown ? ", ..." : ""))
                  << '\n';
  }
}

absl::Status RunDelete(const DeleteOptions& options, Context& context) {
  v1::DeleteRequest request;
  request.set_version(options.version);
  Deleted deleted;
  const auto send = [&](client::Client& client, const v1::DeleteRequest& part) {
    const absl::StatusOr<v1::DeleteResponse> response = client.Delete(part);
    return response.ok() ? CountResults(part, *response, deleted) : context.AddAdvice(response.status());
  };
  absl::Status status = SendForIds(options.ids, kDeletedPerRequest, request, context, send);
  if (!status.ok()) return status;
  PrintDeleted(deleted, options.ids.collection, context);
  return absl::OkStatus();
}

void PrintMatchingDeleted(const v1::DeleteResponse& deleted, const std::string& name, const Context& context) {
  if (context.options.json) {
    context.Print({{"collection", name},
                   {"deleted", deleted.num_deleted()},
                   {"stale", deleted.num_stale()},
                   {"missing", deleted.num_missing()},
                   {"sequence", deleted.sequence()}});
    return;
  }
  PrintDeleted({.num_applied = static_cast<int64_t>(deleted.num_deleted()),
                .num_stale = static_cast<int64_t>(deleted.num_stale()),
                .not_found = {},
                .sequence = deleted.sequence()},
               name, context);
  if (deleted.num_missing() > 0) {
    context.err() << Cat(FormatCount(static_cast<int64_t>(deleted.num_missing())),
                         " missing: another call deleted them first\n");
  }
}

absl::Status RunDeleteMatching(const DeleteOptions& options, Context& context) {
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  v1::DeleteRequest request;
  request.set_collection(options.ids.collection);
  request.set_filter_text(options.filter);
  request.set_version(options.version);
  request.set_min_sequence(options.min_sequence);
  const absl::StatusOr<v1::DeleteResponse> deleted = (*client)->DeleteMatching(request);
  if (!deleted.ok()) {
    // Prints the total in a line of its own. A router's error has a number too, but only that of its last call.
    const auto num_deleted = static_cast<int64_t>(client::NumDeletedOf(deleted.status()).value_or(0));
    if (num_deleted > 0) {
      context.err() << command_line::WithoutControls(Cat(
                           "deleted ", FormatCount(num_deleted), num_deleted == 1 ? " document" : " documents", " of ",
                           options.ids.collection, " before the error: run the command again to delete the rest"))
                    << '\n';
    }
    return context.AddAdvice(deleted.status());
  }
  PrintMatchingDeleted(*deleted, options.ids.collection, context);
  return absl::OkStatus();
}

}  // namespace

void AddDelete(CLI::App& app, Context& context) {
  auto options = std::make_shared<DeleteOptions>();
  CLI::App* command = app.add_subcommand("delete", "Take documents out of a live collection");
  AddDocumentIds(*command, options->ids);
  command
      ->add_option("--filter", options->filter,
                   "Instead of ids: delete all documents that match, such as: lang = \"en\" and year < 2020")
      ->excludes("ids")
      ->excludes("--ids-file")
      ->type_name("TEXT");
  command->add_option("--version", options->version, "A document of a version that is not older stays; 1 or more")
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX))
      ->type_name("N");
  command
      ->add_option("--min-sequence", options->min_sequence,
                   "With --filter: sequence number of a write that must have been seen")
      ->needs("--filter")
      ->type_name("N");
  command->footer(
      "An id that the collection does not hold is no error.\n\n"
      "Examples:\n"
      "  maxsimctl delete notes a b c\n"
      "  maxsimctl delete notes --filter 'year < 2000'");
  command->callback([options, &context] {
    if (!options->filter.empty()) {
      context.result = RunDeleteMatching(*options, context);
      return;
    }
    CheckDocumentIds(options->ids);
    context.result = RunDelete(*options, context);
  });
}

}  // namespace maxsim::ctl
