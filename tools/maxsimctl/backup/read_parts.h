// Reads snapshots of servers (Admin.ReadSnapshot) and writes them to object storage.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backup/backup_manifest.h"
#include "backup/store/object_store.h"
#include "maxsim/v1/admin.pb.h"

namespace maxsim::ctl {

using SnapshotMessageSink = absl::FunctionRef<absl::Status(const v1::ReadSnapshotResponse& message)>;
// Passes the messages of a snapshot to `sink`, in their order. Ends at the first error of `sink` or of the call, and
// returns it. Blocks.
using ReadSnapshot = std::function<absl::Status(SnapshotMessageSink sink)>;

struct SnapshotServer {
  std::string address;
  ReadSnapshot read;
};

// Reads a snapshot of each server, up to 16 at the same time. The first 16 snapshots are of about the same moment. Each
// further one begins when an earlier one is complete. Writes the files to `store` under the manifest's id. Adds to the
// manifest the stream and, in the order of `servers`, the parts. `manifest` must have the id and the collection's name.
// If a call fails, the other calls end at their next message. Takes about 36 MiB of memory for each server that is read
// at the same time.
//
// Returns INTERNAL for messages that no correct server sends; DATA_LOSS for wrong or missing bytes; FAILED_PRECONDITION
// if the snapshots are of different streams, or, before any call, if there are more servers or longer addresses than a
// manifest can have (backup::kMaxBackupParts, kMaxManifestTextBytes); and errors of the calls and of the store. An
// error about one server names it. Does not check that the parts together have all slots (backup::CoveredSlots).
absl::Status ReadParts(const std::vector<SnapshotServer>& servers, backup::ObjectStore& store,
                       backup::BackupManifest& manifest);

}  // namespace maxsim::ctl
