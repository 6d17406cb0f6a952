// Fuzzes filters in JSON. An accepted filter must not change when it is written as JSON and parsed again. When it is
// written as text and parsed again, its canonical form must not change.
#include <string>
#include <vector>

#include "collection/field.h"
#include "collection/filters/canonical.h"
#include "collection/filters/filter_json.h"
#include "collection/filters/filter_text.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

void FuzzFilterJson(std::string_view input) {
  static const auto* const fields = new std::vector<collection::Field>(
      *collection::ParseFields("a:keyword,b:keywords,c:integer,d:number,e:boolean,f:time"));
  const auto filter = collection::ParseFilterJson(input);
  if (!filter.ok()) return RequireRefusal(filter.status());
  const auto again = collection::ParseFilterJson(collection::FormatFilterJson(*filter));
  Require(again.ok(), absl::StrCat("the JSON of a filter can be parsed: ", again.status().ToString()));
  Require(*again == *filter, "a filter returns from its JSON");
  const auto text = collection::ParseFilter(collection::FormatFilter(*filter));
  Require(text.ok(), absl::StrCat("the text of a filter can be parsed: ", text.status().ToString()));
  const auto canonical = collection::CanonicalFilter(*filter, *fields);
  const auto of_text = collection::CanonicalFilter(*text, *fields);
  Require(canonical.ok() == of_text.ok(), "a filter and its text suit the same fields");
  if (canonical.ok()) Require(*canonical == *of_text, "a filter and its text have one canonical form");
}

const Registration kFilterJsonTarget("filter_json", &FuzzFilterJson);

}  // namespace
}  // namespace maxsim::fuzz
