// Fuzzes the reading of fields from payloads. Each line of the input is a payload. Accepted values are written to a
// file, from which the target must read the same values.
#include <cstdint>
#include <string>
#include <vector>

#include "collection/document_line.h"
#include "collection/field.h"
#include "collection/fields/field_file.h"
#include "collection/fields/field_file_maker.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

void FuzzFieldReader(std::string_view input) {
  static const auto* const fields = new std::vector<collection::Field>(
      *collection::ParseFields("a:keyword=m.a,b:keywords=m.b,c:integer,d:number=c2,e:boolean=m.n.e,f:time,g:number=c"));
  collection::FieldReader reader(*fields);
  collection::FieldFileMaker maker(*fields);
  std::vector<std::vector<collection::FieldValue>> expected;
  while (!input.empty()) {
    const size_t end = input.find('\n');
    const std::string_view payload = input.substr(0, end);
    input = end == std::string_view::npos ? std::string_view() : input.substr(end + 1);
    const auto values = reader.Read(payload);
    const absl::Status added = maker.Add(payload);
    Require(values.ok() == added.ok(), "a document is added where it can be read");
    if (!values.ok()) {
      RequireRefusal(values.status());
      continue;
    }
    Require(payload.empty() || payload[0] != '{' || collection::CheckPayload(payload).ok(),
            "what is read is an object");
    expected.push_back(**values);
  }
  const std::string bytes = maker.Make();
  const auto columns = collection::ParseFieldFile(bytes, *fields, static_cast<int64_t>(expected.size()));
  Require(columns.ok(), absl::StrCat("what was made can be read: ", columns.status().ToString()));
  for (size_t document = 0; document < expected.size(); ++document) {
    for (size_t idx = 0; idx < fields->size(); ++idx) {
      Require((*columns)[idx].value(static_cast<int64_t>(document)) == expected[document][idx], "values return");
    }
  }
}

const Registration kFieldReaderTarget("field_reader", &FuzzFieldReader);

}  // namespace
}  // namespace maxsim::fuzz
