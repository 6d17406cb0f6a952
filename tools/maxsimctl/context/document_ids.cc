#include "tools/maxsimctl/context/document_ids.h"

#include <cstdint>

#include "base/lines.h"
#include "base/text.h"
#include "client/messages.h"
#include "tools/maxsimctl/context/input_files.h"

namespace maxsim::ctl {
namespace {

absl::StatusOr<v1::Candidates> Convert(const std::vector<std::string>& ids, v1::IdType type, const std::string& where) {
  if (ids.empty()) return Invalid(where, "there is no id");
  if (type != v1::ID_TYPE_INT64) return client::StringCandidates(ids);
  std::vector<int64_t> numbers;
  for (const std::string& id : ids) {
    int64_t number = 0;
    if (!ParseNumber(Trim(id), number)) {
      return Invalid(where, "id ", numbers.size() + 1, ": ", Quote(id),
                     " is not a 64-bit integer, as this collection's ids are");
    }
    numbers.push_back(number);
  }
  return client::IntCandidates(numbers);
}

}  // namespace

void AddDocumentIds(CLI::App& command, DocumentIds& ids) {
  command.add_option("name", ids.collection, "Collection")->required()->type_name("NAME");
  CLI::Option* listed = command.add_option("ids", ids.listed, "Document ids")->type_name("ID");
  command.add_option("--ids-file", ids.file, "Document ids, one per line; - reads standard input")
      ->excludes(listed)
      ->type_name("FILE");
}

void CheckDocumentIds(const DocumentIds& ids) {
  if (ids.listed.empty() && ids.file.empty()) throw CLI::ValidationError("give document ids, or --ids-file");
}

absl::StatusOr<v1::Candidates> ReadDocumentIds(const DocumentIds& ids, Context& context) {
  const absl::StatusOr<v1::CollectionInfo> collection = context.FindCollection(ids.collection);
  if (!collection.ok()) return collection.status();
  const v1::IdType type = collection->id_type();
  if (ids.file.empty()) return Convert(ids.listed, type, "");
  const absl::StatusOr<std::string> text = ReadText(ids.file);
  if (!text.ok()) return text.status();
  return Convert(ParseIdLines(*text), type, ids.file + ": ");
}

}  // namespace maxsim::ctl
