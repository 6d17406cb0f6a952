// Makes a backup of a live collection in object storage.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/maxsimctl/context/context.h"

namespace maxsim::ctl {

struct BackupOptions {
  std::string name;              // of the collection
  std::string url;               // s3://BUCKET/PREFIX or file:///FOLDER on this machine
  bool is_cluster = false;       // --server is a router, and the backup is of all its groups
  std::string group_token_file;  // for the servers of the groups; "" means that they take the router's token
};

// Makes the backup, and prints its position, size and parts. Returns ALREADY_EXISTS if there are objects under the URL.
// Returns FAILED_PRECONDITION if no stream orders the collection's writes. With options.is_cluster, also returns it if
// the ready servers together do not hold all slots, or if slots move during the backup. Other errors are those of
// OpenStore, ReadParts, PublishBackup and the calls.
absl::Status RunBackup(const BackupOptions& options, Context& context);

}  // namespace maxsim::ctl
