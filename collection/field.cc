#include "collection/field.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "base/text.h"

namespace maxsim::collection {
namespace {

constexpr std::array<std::pair<FieldKind, std::string_view>, 6> kKinds = {{{FieldKind::kKeyword, "keyword"},
                                                                           {FieldKind::kKeywords, "keywords"},
                                                                           {FieldKind::kInteger, "integer"},
                                                                           {FieldKind::kNumber, "number"},
                                                                           {FieldKind::kBoolean, "boolean"},
                                                                           {FieldKind::kTime, "time"}}};

constexpr std::array<std::string_view, 7> kFilterWords = {"and", "or", "not", "in", "exists", "true", "false"};

constexpr std::string_view kAllKinds = "keyword, keywords, integer, number, boolean or time";

absl::Status CheckPath(std::string_view path) {
  if (path.empty() || path.size() > kMaxFieldPathBytes) {
    return Invalid("path: ", path.size(), " bytes; must be 1 to ", kMaxFieldPathBytes);
  }
  if (!IsUtf8(path) || Printable(path, path.size()) != path || path.find(',') != std::string_view::npos) {
    return Invalid("path: ", Quote(path), " holds a comma or a control character, or is not UTF-8");
  }
  for (const std::string_view key : SplitFieldPath(path)) {
    if (key.empty()) return Invalid("path: ", Quote(path), " has an empty key: dots separate keys");
  }
  return absl::OkStatus();
}

// Returns whether `path` leads into the value at `outer`.
bool LeadsInto(std::string_view path, std::string_view outer) {
  return path.size() > outer.size() && path.substr(0, outer.size()) == outer && path[outer.size()] == '.';
}

}  // namespace

std::string_view Name(FieldKind kind) { return kKinds[static_cast<size_t>(kind)].second; }

std::optional<FieldKind> FieldKindFromName(std::string_view name) {
  for (const auto& [kind, its_name] : kKinds) {
    if (its_name == name) return kind;
  }
  return std::nullopt;
}

bool IsFilterWord(std::string_view word) {
  return std::any_of(kFilterWords.begin(), kFilterWords.end(),
                     [&](std::string_view one) { return absl::EqualsIgnoreCase(ForStrCat(one), ForStrCat(word)); });
}

absl::Status CheckFieldName(std::string_view name) {
  const auto is_allowed = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const bool is_well_formed = !name.empty() && name.size() <= kMaxFieldNameBytes &&
                              !absl::ascii_isdigit(static_cast<unsigned char>(name[0])) &&
                              std::all_of(name.begin(), name.end(), is_allowed);
  if (!is_well_formed) {
    return Invalid("name: ", Quote(name), " must be 1 to ", kMaxFieldNameBytes,
                   " characters of A-Z a-z 0-9 _, the first not a digit");
  }
  if (IsFilterWord(name)) return Invalid("name: ", Quote(name), " is a word of the filter grammar");
  return absl::OkStatus();
}

const Field* FindField(const std::vector<Field>& fields, std::string_view name) {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

std::vector<std::string_view> SplitFieldPath(std::string_view path) {
  std::vector<std::string_view> keys;
  while (true) {
    const size_t dot = path.find('.');
    keys.push_back(path.substr(0, dot));
    if (dot == std::string_view::npos) return keys;
    path.remove_prefix(dot + 1);
  }
}

absl::Status CheckFields(const std::vector<Field>& fields) {
  if (fields.size() > kMaxFields) return Invalid(fields.size(), " fields, the limit is ", kMaxFields);
  for (size_t idx = 0; idx < fields.size(); ++idx) {
    const Field& field = fields[idx];
    absl::Status status = CheckFieldName(field.name);
    if (!status.ok()) return Prefix(Cat("field ", idx, ": "), status);
    status = CheckPath(field.path);
    if (!status.ok()) return Prefix(Cat("field ", Quote(field.name), ": "), status);
    for (size_t other = 0; other < idx; ++other) {
      if (fields[other].name == field.name) return Invalid("field ", Quote(field.name), " appears twice");
    }
    for (const Field& other : fields) {
      if (!LeadsInto(field.path, other.path)) continue;
      return Invalid("field ", Quote(field.name), ": path: ", Quote(field.path), " leads into the value of field ",
                     Quote(other.name), ", whose path is ", Quote(other.path));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Field>> ParseFields(std::string_view text) {
  std::vector<Field> fields;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (comma != std::string_view::npos && text.empty()) return Invalid("nothing follows the last comma");
    const size_t colon = one.find(':');
    if (colon == std::string_view::npos) return Invalid(Quote(one), ": must be NAME:KIND or NAME:KIND=PATH");
    const size_t equals = one.find('=', colon);
    const std::string_view kind_name =
        one.substr(colon + 1, equals == std::string_view::npos ? equals : equals - colon - 1);
    const std::optional<FieldKind> kind = FieldKindFromName(kind_name);
    if (!kind.has_value()) return Invalid(Quote(one), ": kind: ", Quote(kind_name), ", expected ", kAllKinds);
    Field field{.name = std::string(one.substr(0, colon)), .kind = *kind, .path = {}};
    field.path = equals == std::string_view::npos ? field.name : std::string(one.substr(equals + 1));
    fields.push_back(std::move(field));
  }
  if (absl::Status status = CheckFields(fields); !status.ok()) return status;
  return fields;
}

std::string FormatFields(const std::vector<Field>& fields) {
  std::string text;
  for (const Field& field : fields) {
    if (!text.empty()) text += ',';
    text += Cat(field.name, ":", Name(field.kind));
    if (field.path != field.name) text += Cat("=", field.path);
  }
  return text;
}

}  // namespace maxsim::collection
