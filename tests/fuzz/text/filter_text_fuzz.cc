// Fuzzes filters as text. An accepted filter must not change when it is written and parsed again, must have one
// canonical form, and must be possible to evaluate.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collection/field.h"
#include "collection/fields/field_file.h"
#include "collection/fields/field_file_maker.h"
#include "collection/filters/canonical.h"
#include "collection/filters/evaluate.h"
#include "collection/filters/field_index.h"
#include "collection/filters/filter_text.h"
#include "tests/fuzz/target.h"

namespace maxsim::fuzz {
namespace {

constexpr int64_t kDocuments = 3;

const std::vector<collection::Field>& Fields() {
  static const auto* const fields = new std::vector<collection::Field>(
      *collection::ParseFields("a:keyword,b:keywords,c:integer,d:number,e:boolean,f:time"));
  return *fields;
}

const collection::ShardIndex& Index() {
  static const auto* const index = [] {
    collection::FieldFileMaker maker(Fields());
    for (const char* const payload :
         {R"({"a":"x","b":["x","y"],"c":5,"d":0.5,"e":true,"f":"2026-01-02T03:04:05Z"})", "", R"({"a":"y","c":-1})"}) {
      Require(maker.Add(payload).ok(), "a payload of the target is well formed");
    }
    const std::string bytes = maker.Make();
    const auto columns = collection::ParseFieldFile(bytes, Fields(), kDocuments);
    Require(columns.ok(), "a file of the target is well formed");
    return new collection::ShardIndex(Fields(), *columns, kDocuments);
  }();
  return *index;
}

void FuzzFilterText(std::string_view input) {
  const auto filter = collection::ParseFilter(input);
  if (!filter.ok()) return RequireRefusal(filter.status());
  Require(collection::CheckFilter(*filter).ok(), "a filter that is parsed is well formed");
  const auto again = collection::ParseFilter(collection::FormatFilter(*filter));
  Require(again.ok(), absl::StrCat("the text of a filter can be parsed: ", again.status().ToString()));
  const auto canonical = collection::CanonicalFilter(*filter, Fields());
  const auto of_text = collection::CanonicalFilter(*again, Fields());
  Require(canonical.ok() == of_text.ok(), "a filter and its text suit the same fields");
  if (!canonical.ok()) return RequireRefusal(canonical.status());
  Require(*canonical == *of_text, "a filter and its text have one canonical form");
  const auto of_canonical = collection::ParseFilter(collection::FormatFilter(*canonical));
  Require(of_canonical.ok(), "the text of a canonical form can be parsed");
  Require(*collection::CanonicalFilter(*of_canonical, Fields()) == *canonical,
          "a canonical form returns from its text");
  const auto set = collection::EvaluateFilter(*canonical, Index());
  Require(set.ok(), "a canonical form can be evaluated");
  const auto negated = collection::EvaluateFilter(collection::Filter::Not(*canonical), Index());
  Require(negated.ok() && set->size() + negated->size() == kDocuments, "a negation matches the other documents");
}

const Registration kFilterTextTarget("filter_text", &FuzzFilterText);

}  // namespace
}  // namespace maxsim::fuzz
