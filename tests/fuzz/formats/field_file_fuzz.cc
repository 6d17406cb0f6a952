// Fuzzes the file of a shard's fields. All values of an accepted file must be readable and in range.
//
// The first byte is the number of documents, which a manifest would give. The shard has one field of each kind.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collection/field.h"
#include "collection/fields/field_file.h"
#include "collection/fields/time_text.h"
#include "tests/fuzz/formats/aligned_copy.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

constexpr size_t kAlignment = 64;

void CheckValue(collection::FieldKind kind, const collection::FieldValue& value) {
  if (const auto* const term = std::get_if<std::string>(&value)) {
    Require(term->size() <= collection::kMaxKeywordBytes && IsUtf8(*term), "a keyword is one");
  } else if (const auto* const list = std::get_if<std::vector<std::string>>(&value)) {
    Require(!list->empty() && list->size() <= collection::kMaxKeywordsPerDocument, "a list is of a length in range");
    for (size_t idx = 1; idx < list->size(); ++idx) Require((*list)[idx - 1] < (*list)[idx], "a list ascends");
  } else if (const auto* const number = std::get_if<double>(&value)) {
    Require(std::isfinite(*number), "a number is finite");
  } else if (const auto* const integer = std::get_if<int64_t>(&value)) {
    if (kind != collection::FieldKind::kTime) return;
    Require(collection::ParseTime(collection::FormatTime(*integer)) == *integer, "a time is one");
  }
}

void FuzzFieldFile(std::string_view input) {
  static const auto* const fields = new std::vector<collection::Field>(
      *collection::ParseFields("a:keyword,b:keywords,c:integer,d:number,e:boolean,f:time"));
  if (input.empty()) return;
  const int64_t num_documents = static_cast<uint8_t>(input[0]) % 32 + 1;
  const std::string_view file = input.substr(1);
  const std::unique_ptr<char, FreeMemory> bytes = AlignedCopy(file, kAlignment);
  const auto columns = collection::ParseFieldFile({bytes.get(), file.size()}, *fields, num_documents);
  if (!columns.ok()) return RequireRefusal(columns.status());
  Require(columns->size() == fields->size(), "every field has a column");
  for (const collection::FieldColumn& column : *columns) {
    int64_t num_present = 0;
    for (int64_t document = 0; document < num_documents; ++document) {
      CheckValue(column.kind, column.value(document));
      num_present += column.has_value(document);
    }
    Require(num_present == column.num_present, "documents with a value are counted");
    for (int64_t term = 1; term < column.num_terms; ++term) {
      Require(column.term(term - 1) < column.term(term), "terms ascend");
    }
  }
}

const Registration kFieldFileTarget("field_file", &FuzzFieldFile);

}  // namespace
}  // namespace maxsim::fuzz
