#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/lines.h"
#include "base/monotonic_clock.h"
#include "base/text.h"
#include "base/units.h"
#include "client/error_details.h"
#include "client/field_path.h"
#include "collection/build/import.h"
#include "tools/command_line/terminal.h"
#include "tools/maxsimctl/write/commands.h"
#include "tools/maxsimctl/write/document_source.h"

namespace maxsim::ctl {
namespace {

// Limits of one request, exact in documents and approximate in bytes. Such a request is large enough that many
// documents share one write to the server's disk, and small enough that two requests take little memory.
constexpr int kBatchDocuments = 1000;
constexpr uint64_t kBatchBytes = 4 << 20;
// Bytes that each document adds to a request beyond its own size, including a share of the request's other bytes.
constexpr uint64_t kFrameBytes = 8;
// Never reached: if the server's queue or memory is full, a write is repeated until --timeout ends it.
constexpr int kMaxAttempts = 1'000'000;

struct UpsertOptions {
  std::string name, documents;
  collection::ImportOptions arrays;
  uint64_t version = 0;
  bool quiet = false;
};

// Sends documents in requests, and counts the outcomes.
class Upserter {
 public:
  Upserter(const UpsertOptions& options, const v1::GetInfoResponse& info, client::Client& client, Context& context)
      : options_(options), client_(client), context_(context) {
    const uint64_t limit = info.limits().max_request_bytes();
    batch_bytes_ = limit == 0 ? kBatchBytes : std::min(kBatchBytes, limit);
    request_.set_collection(options.name);
  }

  absl::Status SendAll(DocumentSource& source) {
    const std::optional<int64_t> total = source.num_documents();
    while (true) {
      absl::StatusOr<std::optional<v1::Document>> document = source.Next();
      if (!document.ok()) return WithCount(document.status());
      if (!document->has_value()) break;
      const uint64_t size = (*document)->ByteSizeLong() + kFrameBytes;
      if (request_.documents_size() == kBatchDocuments || request_bytes_ + size > batch_bytes_) {
        if (absl::Status status = Send(total); !status.ok()) return status;
      }
      *request_.add_documents() = **std::move(document);
      request_bytes_ += size;
      places_.push_back(source.Where());
    }
    return Send(total);
  }

  void Print(absl::Duration took) const {
    if (context_.options.json) {
      context_.Print({{"collection", options_.name},
                      {"documents", num_documents_},
                      {"applied", num_applied_},
                      {"stale", num_documents_ - num_applied_},
                      {"encoded_tokens", encoded_tokens_},
                      {"truncated", num_truncated_},
                      {"sequence", num_documents_ == 0 ? Json() : Json(sequence_)}});
      return;
    }
    if (num_documents_ == 0) {
      context_.out() << command_line::WithoutControls(
                            Cat("nothing was written to ", options_.name, ": the input has no documents"))
                     << '\n';
      return;
    }
    const std::string stale = num_applied_ == num_documents_
                                  ? ""
                                  : Cat(" (", FormatCount(num_documents_ - num_applied_),
                                        " more are stale: a version that is not older was there)");
    context_.out() << command_line::WithoutControls(Cat("wrote ", Documents(num_applied_), " to ", options_.name, stale,
                                                        ", sequence ", sequence_, ", in ",
                                                        command_line::Fixed(absl::ToDoubleSeconds(took), 1), " s"))
                   << '\n';
    if (num_truncated_ == 0) return;
    const bool has_more = num_truncated_ > static_cast<int64_t>(truncated_places_.size());
    context_.err() << command_line::WithoutControls(
                          Cat("the encoder cut the end of ", FormatCount(num_truncated_),
                              num_truncated_ == 1 ? " text" : " texts", ", longer than its model reads: ",
                              absl::StrJoin(truncated_places_, ", "), has_more ? ", ..." : ""))
                   << '\n';
  }

 private:
  static std::string Documents(int64_t count) { return FormatCount(count) + (count == 1 ? " document" : " documents"); }

  absl::Status Send(std::optional<int64_t> total) {
    if (request_.documents().empty()) return absl::OkStatus();
    const absl::StatusOr<v1::UpsertResponse> response = client_.Upsert(request_, {.max_attempts = kMaxAttempts});
    if (!response.ok()) return WithCount(Located(context_.AddAdvice(response.status())));
    if (response->results_size() != request_.documents_size()) {
      return absl::InternalError(Cat("the server's answer is wrong: ", response->results_size(), " results for ",
                                     request_.documents_size(), " documents"));
    }
    num_documents_ += response->results_size();
    num_applied_ += std::count_if(response->results().begin(), response->results().end(),
                                  [](const auto& result) { return result.outcome() == v1::WRITE_OUTCOME_APPLIED; });
    NoteTruncated(*response);
    sequence_ = response->sequence();
    encoded_tokens_ += response->encoded_tokens();
    request_.clear_documents();
    request_bytes_ = 0;
    places_.clear();
    ShowProgress(total);
    return absl::OkStatus();
  }

  void NoteTruncated(const v1::UpsertResponse& response) {
    constexpr size_t kShown = 10;
    for (int i = 0; i < response.results_size(); ++i) {
      if (!response.results(i).truncated()) continue;
      ++num_truncated_;
      if (truncated_places_.size() < kShown) truncated_places_.push_back(places_[static_cast<size_t>(i)]);
    }
  }

  // Writes a line now and then, about a dozen per minute.
  void ShowProgress(std::optional<int64_t> total) {
    constexpr absl::Duration kEvery = absl::Seconds(5);
    const absl::Time now = MonotonicNow();
    if (options_.quiet || now - last_shown_ < kEvery) return;
    last_shown_ = now;
    context_.err() << Cat(FormatCount(num_documents_), total.has_value() ? " of " + FormatCount(*total) : "",
                          " documents written\n");
  }

  // The server's error says which document of the request was wrong, by its index. Replaces the index by the document's
  // place in the input file, which helps the user more.
  absl::Status Located(const absl::Status& status) const {
    const std::optional<size_t> idx = client::IndexIn(client::FieldOf(status), "documents");
    return idx.has_value() && *idx < places_.size() ? Prefix(places_[*idx] + ": ", status) : status;
  }

  absl::Status WithCount(const absl::Status& status) const {
    if (num_documents_ == 0) return status;
    return absl::Status(status.code(), Cat(status.message(), " (the first ", FormatCount(num_documents_),
                                           num_documents_ == 1 ? " document is written)" : " documents are written)"));
  }

  const UpsertOptions& options_;
  client::Client& client_;
  Context& context_;
  uint64_t batch_bytes_ = 0;
  v1::UpsertRequest request_;
  uint64_t request_bytes_ = 0;
  std::vector<std::string> places_;  // of the request's documents in the input
  int64_t num_documents_ = 0, num_applied_ = 0, num_truncated_ = 0;
  std::vector<std::string> truncated_places_;  // the first ones
  uint64_t sequence_ = 0, encoded_tokens_ = 0;
  absl::Time last_shown_ = MonotonicNow();
};

absl::StatusOr<v1::CollectionInfo> Find(const v1::GetInfoResponse& info, const std::string& name, Context& context) {
  for (const v1::CollectionInfo& collection : info.collections()) {
    if (collection.name() == name) return collection;
  }
  return context.FindCollection(name).status();  // which lists the names that there are
}

absl::StatusOr<std::unique_ptr<DocumentSource>> OpenSource(const UpsertOptions& options, v1::IdType id_type,
                                                           std::ifstream& file) {
  if (options.documents.empty()) {
    collection::ImportOptions arrays = options.arrays;
    arrays.id_type = id_type == v1::ID_TYPE_INT64 ? collection::IdType::kInt64 : collection::IdType::kString;
    return OpenArrays(arrays, options.version);
  }
  if (options.documents == "-") return ReadUpsertLines(std::cin, "-", id_type);
  file.open(options.documents, std::ios::binary);
  if (!file) return absl::NotFoundError(Cat(options.documents, ": cannot be opened"));
  return ReadUpsertLines(file, options.documents, id_type);
}

absl::Status RunUpsert(const UpsertOptions& options, Context& context) {
  const absl::Time began = MonotonicNow();
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::GetInfoResponse> info = (*client)->GetInfo();
  if (!info.ok()) return context.AddAdvice(info.status());
  const absl::StatusOr<v1::CollectionInfo> collection = Find(*info, options.name, context);
  if (!collection.ok()) return collection.status();
  std::ifstream file;
  const absl::StatusOr<std::unique_ptr<DocumentSource>> source = OpenSource(options, collection->id_type(), file);
  if (!source.ok()) return source.status();
  Upserter upserter(options, *info, **client, context);
  if (absl::Status status = upserter.SendAll(**source); !status.ok()) return status;
  upserter.Print(MonotonicNow() - began);
  return absl::OkStatus();
}

// Throws what CLI11 throws for a command line that is wrong.
void CheckUsage(const UpsertOptions& options) {
  const bool arrays =
      !options.arrays.inputs.empty() || !options.arrays.tokens.empty() || !options.arrays.lengths.empty();
  if (options.documents.empty()) {
    if (!arrays) throw CLI::ValidationError("give --documents, --input, or --tokens with --lengths");
    if (absl::Status status = collection::CheckImportOptions(options.arrays); !status.ok()) {
      throw CLI::ValidationError(std::string(status.message()));
    }
  } else if (arrays || !options.arrays.ids.empty() || !options.arrays.scales.empty()) {
    throw CLI::ValidationError("--documents goes without --input, --tokens, --lengths, --scales and --ids");
  } else if (options.version != 0) {
    throw CLI::ValidationError("--version goes with arrays; a line of --documents has its own \"version\"");
  }
}

}  // namespace

void AddUpsert(CLI::App& app, Context& context) {
  auto options = std::make_shared<UpsertOptions>();
  CLI::App* command = app.add_subcommand("upsert", "Add documents to a live collection, or replace those of their ids");
  command->add_option("name", options->name, "Collection")->required()->type_name("NAME");
  command
      ->add_option("--documents", options->documents, "JSON Lines, a document a line (below); - reads standard input")
      ->type_name("FILE.jsonl");
  command->add_option("--tokens", options->arrays.tokens, "Token vectors of all documents: array [T, dim]")
      ->type_name("FILE.npy");
  command->add_option("--lengths", options->arrays.lengths, "Tokens of each document: array [N] of integers")
      ->type_name("FILE.npy");
  command->add_option("--scales", options->arrays.scales, "What i8 tokens are multiplied by: array [N] or [T]")
      ->type_name("FILE.npy");
  command->add_option("--input", options->arrays.inputs, "In place of --tokens and --lengths: archives or collections")
      ->type_name("FILE.npz|FILE.safetensors|DIR");
  command->add_option("--ids", options->arrays.ids, "Ids and payloads of the arrays' documents, a line each")
      ->type_name("FILE.jsonl|FILE.txt");
  command->add_option("--version", options->version, "Version of all documents of the arrays, 1 or more")
      ->check(CLI::Range(uint64_t{1}, UINT64_MAX))
      ->type_name("N");
  command->add_flag("--quiet", options->quiet, "No progress");
  command->footer(
      "A line of --documents: {\"id\": \"a\", \"tokens\": [[0.1, ...], ...], \"payload\": {...}, \"version\": 3}, or\n"
      "\"text\" in place of \"tokens\", which the server's encoder turns into vectors; payload and version may be left "
      "out.\nWithout a payload, the payload is the text and every other member, as maxsim-shard build --ids takes a "
      "line."
      "\n"
      "Arrays, archives and --ids are those of maxsim-shard build. Arrays without --ids get the ids 0, 1, ...\n"
      "in each call anew, so that a second call overwrites what the first one wrote.\n\n"
      "Documents are sent in requests of 1,000; each is on the server's disk, and visible, when it is answered. Where "
      "the\n"
      "server has no room, a request is made again until --timeout has passed. After an error, running the command "
      "again\nis safe: documents are replaced whole.\n\n"
      "Example: maxsimctl upsert notes --documents notes.jsonl");
  command->callback([options, &context] {
    CheckUsage(*options);
    context.result = RunUpsert(*options, context);
  });
}

}  // namespace maxsim::ctl
