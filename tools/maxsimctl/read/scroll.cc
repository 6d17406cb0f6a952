#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include "base/lines.h"
#include "base/text.h"
#include "tools/maxsimctl/read/commands.h"
#include "tools/maxsimctl/read/stored_document.h"

namespace maxsim::ctl {
namespace {

constexpr uint64_t kDocumentsPerPage = 1000;  // the server's own limit
// A page with vectors has fewer documents, so that an answer with long documents stays far below gRPC's size limit.
constexpr uint64_t kDocumentsWithTokensPerPage = 20;

struct ScrollOptions {
  std::string collection, filter, after;
  uint64_t limit = 0;  // 0: all
  bool tokens = false;
  uint64_t min_sequence = 0;
};

// Sets the id after which the first page begins, in the type that the collection has on the server.
absl::Status SetAfter(const ScrollOptions& options, Context& context, v1::ScrollRequest& request) {
  if (options.after.empty()) return absl::OkStatus();
  const absl::StatusOr<v1::CollectionInfo> collection = context.FindCollection(options.collection);
  if (!collection.ok()) return collection.status();
  if (collection->id_type() != v1::ID_TYPE_INT64) {
    request.set_after_string_id(options.after);
    return absl::OkStatus();
  }
  int64_t number = 0;
  if (!ParseNumber(Trim(options.after), number)) {
    return absl::InvalidArgumentError(
        Cat("--after: ", Quote(options.after), " is not a 64-bit integer, as this collection's ids are"));
  }
  request.set_after_int_id(number);
  return absl::OkStatus();
}

absl::Status RunScroll(const ScrollOptions& options, Context& context) {
  v1::ScrollRequest request;
  request.set_collection(options.collection);
  if (!options.filter.empty()) request.set_filter_text(options.filter);
  request.set_return_payloads(true);
  request.set_return_tokens(options.tokens);
  request.set_min_sequence(options.min_sequence);
  if (absl::Status status = SetAfter(options, context, request); !status.ok()) return status;
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  const uint64_t per_page = options.tokens ? kDocumentsWithTokensPerPage : kDocumentsPerPage;
  uint64_t num_documents = 0;
  for (bool has_more = true; has_more && (options.limit == 0 || num_documents < options.limit);) {
    const uint64_t wanted = options.limit == 0 ? per_page : std::min(per_page, options.limit - num_documents);
    request.set_limit(static_cast<uint32_t>(wanted));
    const absl::StatusOr<v1::ScrollResponse> page = (*client)->Scroll(request);
    if (!page.ok()) return context.AddAdvice(page.status());
    for (const v1::StoredDocument& document : page->documents()) {
      const absl::StatusOr<Json> json = StoredDocumentJson(document);
      if (!json.ok()) return json.status();
      context.out() << json->dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    }
    num_documents += static_cast<uint64_t>(page->documents_size());
    has_more = page->has_more() && !page->documents().empty();
    if (!has_more) break;
    const v1::StoredDocument& last = page->documents(page->documents_size() - 1);
    if (last.has_int_id()) {
      request.set_after_int_id(last.int_id());
    } else {
      request.set_after_string_id(last.string_id());
    }
  }
  return absl::OkStatus();
}

}  // namespace

void AddScroll(CLI::App& app, Context& context) {
  auto options = std::make_shared<ScrollOptions>();
  CLI::App* command =
      app.add_subcommand("scroll", "Print documents in the order of their ids, one JSON object per line");
  command->add_option("name", options->collection, "Collection")->required()->type_name("NAME");
  command
      ->add_option("--filter", options->filter,
                   "Print only the documents that match, such as: lang = \"en\" and year >= 2020")
      ->type_name("TEXT");
  command->add_option("--after", options->after, "Begin after this id")->type_name("ID");
  command->add_option("--limit", options->limit, "Stop after this many documents; 0: print all")->type_name("N");
  command->add_flag("--tokens", options->tokens,
                    "Print token vectors too; those of an i8 collection are quantised and rotated");
  command->add_option("--min-sequence", options->min_sequence, "Sequence number of a write that must have been seen")
      ->type_name("N");
  command->footer("Example: maxsimctl scroll notes --filter 'year >= 2020' > notes.jsonl");
  command->callback([options, &context] { context.result = RunScroll(*options, context); });
}

}  // namespace maxsim::ctl
