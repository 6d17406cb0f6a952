#include "loadtest/ids.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/messages.h"
#include "evaluation/judgements.h"
#include "evaluation/lines.h"
#include "server/shard/text.h"

namespace maxsim::loadtest {

absl::StatusOr<IdSet> IdSet::FromFile(const std::string& path, v1::IdType type) {
  const absl::StatusOr<std::string> text = evaluation::ReadWholeFile(path);
  if (!text.ok()) return text.status();
  IdSet ids;
  ids.type_ = type == v1::ID_TYPE_INT64 ? type : v1::ID_TYPE_STRING;
  absl::Status read = evaluation::ForEachLine(*text, [&](int64_t number, std::string_view line) {
    if (line.back() == '\r') line.remove_suffix(1);
    if (ids.type_ == v1::ID_TYPE_STRING) {
      ids.strings_.emplace_back(line);
      return absl::OkStatus();
    }
    int64_t& id = ids.ints_.emplace_back();
    if (evaluation::ParseNumber(evaluation::Trim(line), id)) return absl::OkStatus();
    return shard::Invalid(path, ":", number, ": ", shard::Quote(line),
                          " is not a 64-bit integer, as this collection's ids are");
  });
  if (!read.ok()) return read;
  ids.size_ = ids.type_ == v1::ID_TYPE_STRING ? ids.strings_.size() : ids.ints_.size();
  if (ids.size_ == 0) return shard::Invalid(path, " holds no id");
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
