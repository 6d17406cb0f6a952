// Shared by `maxsimctl delete` and `maxsimctl get`: both take a collection and ids of its documents, and split the ids
// over several requests.
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

// Adds the positional collection, the positional ids and --ids-file. A command needs either ids or --ids-file.
void AddDocumentIds(CLI::App& command, DocumentIds& ids);

// Throws CLI::ValidationError if the command line has neither ids nor --ids-file.
void CheckDocumentIds(const DocumentIds& ids);

// Returns the ids of the command line, or those of the file that --ids-file names, converted to the id type of the
// collection on the server. Errors are those of Context::FindCollection and of reading that file. INVALID_ARGUMENT if
// there is no id, or if the collection has integer ids and an id is no integer.
absl::StatusOr<v1::Candidates> ReadDocumentIds(const DocumentIds& ids, Context& context);

// Copies at most `count` ids, starting with number `first`, into a request. Returns the number of copied ids.
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

// Sends all ids in order, in copies of `request` that have the collection and at most `max_ids` ids each. `send` takes
// the client and a request, and returns a status. Stops at the first error. Also returns the errors of ReadDocumentIds
// and Context::Connect. Blocks.
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
