#include "server/service/page/grouping.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "server/service/call/status.h"
#include "server/service/page/page.h"

namespace maxsim::service {
namespace {

constexpr size_t kMaxListedKeywords = 16;  // names of fields in an error

absl::Status NoKeyword(const std::string& name, const std::vector<collection::Field>& fields) {
  const auto field =
      std::find_if(fields.begin(), fields.end(), [&](const collection::Field& one) { return one.name == name; });
  if (field != fields.end()) {
    return InvalidField("group_by",
                        absl::StrCat("field ", Quote(name), " is of kind ", std::string(collection::Name(field->kind)),
                                     ", but documents can only be grouped by a field of kind keyword"));
  }
  std::vector<std::string> keywords;
  for (const collection::Field& one : fields) {
    if (one.kind == collection::FieldKind::kKeyword) keywords.push_back(one.name);
  }
  const bool is_cut = keywords.size() > kMaxListedKeywords;
  if (is_cut) keywords.resize(kMaxListedKeywords);
  const std::string known =
      keywords.empty() ? std::string("none") : absl::StrCat(absl::StrJoin(keywords, ", "), is_cut ? ", ..." : "");
  return InvalidField("group_by",
                      absl::StrCat("field ", Quote(name), " is not declared; the collection's keywords: ", known));
}

}  // namespace

int64_t GroupSizeOf(const v1::RerankRequest& request) { return std::max<int64_t>(request.group_size(), 1); }

absl::Status CheckGrouping(const v1::RerankRequest& request, const RequestLimits& limits) {
  if (request.group_by().empty()) {
    if (request.group_size() != 0) {
      return InvalidField("group_size", absl::StrCat("is ", request.group_size(), ", but group_by names no field"));
    }
    if (request.group_values_size() != 0) {
      return InvalidField("group_values",
                          absl::StrCat("has ", request.group_values_size(), " values, but group_by names no field"));
    }
    return absl::OkStatus();
  }
  const Page page = PageOf(request, limits);
  if (const int64_t documents = page.num_ranked() * GroupSizeOf(request); documents > limits.max_top_k) {
    return InvalidField(
        "group_size",
        absl::StrCat("is ", request.group_size(), ", so ", page.num_ranked(), " groups (offset + top_k) have up to ",
                     documents, " documents; must be at most ", limits.max_top_k, " (limits.max_top_k)"),
        {limits.max_top_k, documents, "limits.max_top_k"});
  }
  if (request.group_values_size() > limits.max_top_k) {
    return InvalidField("group_values",
                        absl::StrCat("has ", request.group_values_size(), " values; must have at most ",
                                     limits.max_top_k, " (limits.max_top_k)"),
                        {limits.max_top_k, request.group_values_size(), "limits.max_top_k"});
  }
  return absl::OkStatus();
}

absl::StatusOr<Grouping> GroupingOf(const v1::RerankRequest& request, const collection::Filter* filter,
                                    const std::vector<collection::Field>& fields, const RequestLimits& limits) {
  const auto field = std::find_if(fields.begin(), fields.end(), [&](const collection::Field& one) {
    return one.name == request.group_by() && one.kind == collection::FieldKind::kKeyword;
  });
  if (field == fields.end()) return NoKeyword(request.group_by(), fields);
  Grouping grouping{.field_idx = static_cast<size_t>(field - fields.begin()),
                    .field = field->name,
                    .num_groups = static_cast<size_t>(PageOf(request, limits).num_ranked()),
                    .group_size = static_cast<size_t>(GroupSizeOf(request)),
                    .filters = {},
                    .refinement = request.refinement()};
  if (filter != nullptr) grouping.filters.push_back(*filter);
  if (request.group_values().empty()) {
    grouping.filters.push_back(collection::Filter::Exists(field->name));
    return grouping;
  }
  std::vector<std::string> values(request.group_values().begin(), request.group_values().end());
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::vector<collection::FilterValue> listed(std::make_move_iterator(values.begin()),
                                              std::make_move_iterator(values.end()));
  grouping.filters.push_back(collection::Filter::In(field->name, std::move(listed)));
  return grouping;
}

collection::Filter AllOf(std::vector<collection::Filter> filters) {
  std::vector<collection::Filter> children;
  for (collection::Filter& filter : filters) {
    if (filter.kind == collection::Filter::Kind::kAnd) {
      std::move(filter.children.begin(), filter.children.end(), std::back_inserter(children));
    } else {
      children.push_back(std::move(filter));
    }
  }
  return children.size() == 1 ? std::move(children.front()) : collection::Filter::And(std::move(children));
}

}  // namespace maxsim::service
