#include "loadtest/random/ids.h"

#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/lines.h"
#include "base/text.h"
#include "client/messages.h"
#include "collection/evaluation/judgements.h"

namespace maxsim::loadtest {

absl::StatusOr<IdSet> IdSet::FromFile(const std::string& path, v1::IdType type) {
  const absl::StatusOr<std::string> text = evaluation::ReadWholeFile(path);
  if (!text.ok()) return text.status();
  IdSet ids;
  ids.type_ = type == v1::ID_TYPE_INT64 ? type : v1::ID_TYPE_STRING;
  // These maps hold the line of every id so far. Their strings lie in `text`.
  absl::flat_hash_map<absl::string_view, int64_t> string_lines;
  absl::flat_hash_map<int64_t, int64_t> int_lines;
  const auto twice = [&path](int64_t number, std::string_view id, int64_t first) {
    return Invalid(path, ":", number, ": the id ", Quote(id), " is already on line ", first, "; ids must differ");
  };
  absl::Status read = ForEachLine(*text, [&](int64_t number, std::string_view line) {
    if (line.back() == '\r') line.remove_suffix(1);
    if (ids.type_ == v1::ID_TYPE_STRING) {
      const auto [found, is_new] = string_lines.try_emplace(absl::string_view(line.data(), line.size()), number);
      if (!is_new) return twice(number, line, found->second);
      ids.strings_.emplace_back(line);
      return absl::OkStatus();
    }
    const std::string_view trimmed = Trim(line);
    int64_t& id = ids.ints_.emplace_back();
    if (!ParseNumber(trimmed, id)) {
      return Invalid(path, ":", number, ": ", Quote(line), " is not a 64-bit integer, as this collection's ids are");
    }
    const auto [found, is_new] = int_lines.try_emplace(id, number);
    return is_new ? absl::OkStatus() : twice(number, trimmed, found->second);
  });
  if (!read.ok()) return read;
  ids.size_ = ids.type_ == v1::ID_TYPE_STRING ? ids.strings_.size() : ids.ints_.size();
  if (ids.size_ == 0) return Invalid(path, " holds no id");
  return ids;
}

IdSet IdSet::Numbered(uint64_t count, const std::optional<std::string>& prefix) {
  IdSet ids;
  ids.type_ = prefix.has_value() ? v1::ID_TYPE_STRING : v1::ID_TYPE_INT64;
  ids.size_ = count;
  ids.prefix_ = prefix.value_or("");
  return ids;
}

std::string IdSet::StringId(uint64_t number) const {
  return strings_.empty() ? absl::StrCat(prefix_, number) : strings_[number];
}

int64_t IdSet::IntId(uint64_t number) const { return ints_.empty() ? static_cast<int64_t>(number) : ints_[number]; }

v1::Candidates IdSet::Candidates(const std::vector<uint64_t>& numbers) const {
  v1::Candidates candidates;
  if (type_ == v1::ID_TYPE_STRING) {
    auto& ids = *candidates.mutable_string_ids()->mutable_ids();
    ids.Reserve(static_cast<int>(numbers.size()));
    for (const uint64_t number : numbers) *ids.Add() = StringId(number);
  } else {
    auto& ids = *candidates.mutable_int_ids()->mutable_ids();
    ids.Reserve(static_cast<int>(numbers.size()));
    for (const uint64_t number : numbers) ids.Add(IntId(number));
  }
  return candidates;
}

bool IdSet::Names(const v1::QueryResult& result, int hit, uint64_t number) const {
  if (type_ == v1::ID_TYPE_STRING) return result.string_ids().ids(hit) == StringId(number);
  return result.int_ids().ids(hit) == IntId(number);
}

}  // namespace maxsim::loadtest
