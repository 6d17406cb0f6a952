// Where the messages of a snapshot go that this server sends.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "maxsim/v1/admin.pb.h"

namespace maxsim::service {

// Takes the messages of a snapshot, in the order of admin.proto. Blocks until the next message can be passed. After an
// error no further message can be sent.
using SnapshotSink = absl::FunctionRef<absl::Status(const v1::ReadSnapshotResponse& message)>;

}  // namespace maxsim::service
