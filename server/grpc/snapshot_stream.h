// Admin.ReadSnapshot: a stream of messages that a blocking thread makes.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "base/stop.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/grpc/stream_registry.h"
#include "server/service/api.h"
#include "server/service/call/call_tracker.h"
#include "server/service/call/worker.h"

namespace maxsim::rpc {

// Makes the messages of a stream, and passes them to `sink`. Runs on a thread of the worker, which it may block. When
// `stop` is stopped, `sink` returns the status of `stop`, and this must end soon.
using WriteStream = std::function<absl::Status(service::SnapshotSink sink, const StopSignal& stop)>;

// Called once when the stream has ended, with its status.
using StreamEnd = std::function<void(const absl::Status& status)>;

// Serves one stream: runs `write` on `worker`. gRPC gets one message at a time, and takes the next one when HTTP/2 flow
// control allows. So the client sets the pace, and the stream holds little memory. A client that takes no message for
// some minutes loses the stream. The stream ends with the status of `write`, or with UNAVAILABLE soon after the
// registry drains. `tracker` counts the stream as in progress until gRPC has released it. `stop` is the call's own
// signal, which is stopped when the client cancels the call.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartSnapshotStream(grpc::CallbackServerContext* context,
                                                                std::shared_ptr<StopSignal> stop, WriteStream write,
                                                                StreamEnd end, service::Worker* worker,
                                                                StreamRegistry* registry,
                                                                service::CallTracker* tracker);

// Ends a stream that cannot begin with an error.
grpc::ServerWriteReactor<grpc::ByteBuffer>* RefuseSnapshotStream(const absl::Status& status,
                                                                 service::CallTracker* tracker);

}  // namespace maxsim::rpc
