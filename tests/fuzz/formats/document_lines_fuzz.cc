// Fuzzes a JSON Lines file of documents. For each line, the streaming parser must agree with a parser that builds a
// tree. A second pass over the file must find the same documents as the first.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collection/build/sources/document_lines.h"
#include "nlohmann/json.hpp"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

using nlohmann::json;

std::shared_ptr<const InputFile> OpenMemory(const MemoryFile& memory) {
  absl::StatusOr<InputFile> file = InputFile::Open(memory.path());
  Require(file.ok(), "the file opens");
  return std::make_shared<const InputFile>(*std::move(file));
}

void CheckLine(std::string_view line) {
  const absl::StatusOr<collection::DocumentLine> parsed = collection::ParseDocumentLine(line);
  if (!parsed.ok()) return RequireRefusal(parsed.status());
  json whole = json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  Require(whole.is_object() && whole.contains("id"), "a document is a JSON object with an id");
  Require(
      parsed->id_type == collection::IdType::kString ? whole["id"] == parsed->string_id : whole["id"] == parsed->int_id,
      "the id is the object's");
  whole.erase("id");
  if (parsed->payload.empty()) return Require(whole.empty(), "nothing beside the id is lost");
  Require(collection::CheckPayload(parsed->payload).ok(), "a payload that is kept is one that can be stored");
  Require(json::parse(parsed->payload, nullptr, false) == whole, "the payload is the object without its id");
}

// Reads the file once. Returns its documents, up to its end or the first error.
std::vector<collection::DocumentLine> Documents(const MemoryFile& memory, std::optional<collection::IdType> type) {
  std::vector<collection::DocumentLine> documents;
  collection::DocumentLineReader reader(OpenMemory(memory), type);
  while (true) {
    absl::StatusOr<std::optional<collection::DocumentLine>> next = reader.Next();
    if (!next.ok()) RequireRefusal(next.status());
    if (!next.ok() || !next->has_value()) return documents;
    if (type.has_value()) Require((*next)->id_type == *type, "every id has the type that was asked for");
    documents.push_back(**std::move(next));
  }
}

void FuzzDocumentLines(std::string_view input) {
  for (std::string_view rest = input; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    CheckLine(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const MemoryFile memory(input);
  Documents(memory, collection::IdType::kInt64);
  Documents(memory, collection::IdType::kString);
  const std::vector<collection::DocumentLine> documents = Documents(memory, std::nullopt);
  // A file of plain ids has no payloads, so it needs no second pass.
  const auto has_payload = [](const collection::DocumentLine& document) { return !document.payload.empty(); };
  if (std::none_of(documents.begin(), documents.end(), has_payload)) return;
  const std::unique_ptr<collection::PayloadSource> payloads = collection::ReadLinePayloads(OpenMemory(memory));
  for (const collection::DocumentLine& document : documents) {
    const absl::StatusOr<std::string_view> payload = payloads->Next();
    Require(payload.ok() && *payload == document.payload, "the second pass finds the first one's payloads");
  }
}

const Registration kDocumentLinesTarget("document_lines", &FuzzDocumentLines);

}  // namespace
}  // namespace maxsim::fuzz
