// The ids that `maxsimctl delete` and `maxsimctl get` are given.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::ctl {

struct DocumentIds {
  std::vector<std::string> listed;
  std::string file;
};

// Adds the positional ids and --ids-file, of which a command wants exactly one.
void AddDocumentIds(CLI::App& command, DocumentIds& ids);

// Throws CLI::ValidationError where the command line has neither.
void CheckDocumentIds(const DocumentIds& ids);

// Returns the ids, of the collection's type. INVALID_ARGUMENT where the file has none, or one is no integer where the
// collection has integers.
absl::StatusOr<v1::Candidates> ReadDocumentIds(const DocumentIds& ids, v1::IdType type);

// Fills the ids of a request from `first` on, at most `count`; returns how many there were.
template <typename Request>
int FillIds(const v1::Candidates& ids, int first, int count, Request& request) {
  const auto fill = [&](const auto& all, auto& target) {
    const int end = std::min(all.size(), first + count);
    for (int i = first; i < end; ++i) target.Add(std::decay_t<decltype(all[i])>(all[i]));
    return std::max(0, end - first);
  };
  if (ids.has_int_ids()) return fill(ids.int_ids().ids(), *request.mutable_int_ids()->mutable_ids());
  return fill(ids.string_ids().ids(), *request.mutable_string_ids()->mutable_ids());
}

}  // namespace maxsim::ctl
