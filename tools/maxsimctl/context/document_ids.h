// What `maxsimctl delete` and `maxsimctl get` share: a collection and ids of its documents are given, and requests that
// name a part of the ids each are sent.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/client.h"
#include "maxsim/v1/rerank.pb.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

struct DocumentIds {
  std::string collection;
  std::vector<std::string> listed;
  std::string file;
};

// Adds the positional collection, and the positional ids and --ids-file, of which a command wants exactly one.
void AddDocumentIds(CLI::App& command, DocumentIds& ids);

// Throws CLI::ValidationError where the command line has neither ids nor --ids-file.
void CheckDocumentIds(const DocumentIds& ids);

// Returns the ids, of the type that the collection has on the server. Errors are those of Context::FindCollection and
// of the file, and INVALID_ARGUMENT where there is no id, or one is no integer and the collection has integers.
absl::StatusOr<v1::Candidates> ReadDocumentIds(const DocumentIds& ids, Context& context);

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

// Sends copies of `request` with the collection and, in their order, all ids, at most `max_ids` in each. `send` takes
// the client and a request, and returns a status; the first error ends it. Errors are also those of ReadDocumentIds and
// Context::Connect. Blocks.
template <typename Request, typename Send>
absl::Status SendForIds(const DocumentIds& ids, int max_ids, const Request& request, Context& context, Send send) {
  const absl::StatusOr<v1::Candidates> all = ReadDocumentIds(ids, context);
  if (!all.ok()) return all.status();
  const absl::StatusOr<client::Client*> client = context.Connect();
  if (!client.ok()) return client.status();
  for (int first = 0;; first += max_ids) {
    Request part = request;
    part.set_collection(ids.collection);
    if (FillIds(*all, first, max_ids, part) == 0) return absl::OkStatus();
    if (absl::Status status = send(**client, part); !status.ok()) return status;
  }
}

}  // namespace maxsim::ctl
