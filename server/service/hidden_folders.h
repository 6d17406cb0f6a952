// Keeps the folders of the server's machine out of what clients see: names of folders tell how the machine is set up,
// also outside of store.allowed_roots. Only administrators, the log and traces get them.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "maxsim/v1/rerank.pb.h"

namespace maxsim::service {

// Returns the text with every absolute path cut to its last component: "/srv/a/log.1: cut off" becomes "log.1: cut
// off". Paths of the HTTP API stay.
std::string WithoutFolders(std::string_view text);

// Returns what a client may read of an error's message. A message about the client's own request stays as it is, since
// what looks like a path in it is the client's id or URL.
std::string MessageForClient(absl::StatusCode code, std::string_view message);

// Returns the status with that message. Keeps its payloads.
absl::Status ForClient(const absl::Status& status);

// Takes folders out of what is said about a collection.
void HideFolders(v1::CollectionInfo& info);

}  // namespace maxsim::service
