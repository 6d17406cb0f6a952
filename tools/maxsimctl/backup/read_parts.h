// Reads snapshots of servers (Admin.ReadSnapshot) and writes them to object storage.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "maxsim/v1/admin.pb.h"
#include "tools/backup/backup_manifest.h"
#include "tools/backup/store/object_store.h"

namespace maxsim::ctl {

// Passes the messages of a snapshot to `sink`, in their order, and returns the first error of `sink` or that of the
// call. Blocks.
using SnapshotMessageSink = absl::FunctionRef<absl::Status(const v1::ReadSnapshotResponse& message)>;
using ReadSnapshot = std::function<absl::Status(SnapshotMessageSink sink)>;

struct SnapshotServer {
  std::string address;
  ReadSnapshot read;
};

// Reads a snapshot of each server, up to 16 at the same time, so that they are of about the same moment. Writes their
// files with the manifest's id, and adds the parts, in the order of the servers, and the stream to the manifest. Ends
// all calls soon after one has failed. Takes about 36 MiB of memory for each server that is read.
//
// Returns INTERNAL for messages that no correct server sends; DATA_LOSS for wrong or missing bytes; FAILED_PRECONDITION
// if the snapshots are of different streams, or lack slots between them. Errors about one server name it; others are
// those of the store.
absl::Status ReadParts(const std::vector<SnapshotServer>& servers, backup::ObjectStore& store,
                       backup::BackupManifest& manifest);

}  // namespace maxsim::ctl
