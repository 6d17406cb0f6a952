// UpsertStream: a pipeline of writes over one call.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/grpc/stream_registry.h"
#include "server/service/api.h"
#include "server/service/call/call_tracker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

inline constexpr char kUpsertStream[] = "UpsertStream";  // as the metrics name it

// Serves one stream. Requests are written in their order: one is read when the one before has been handed to the
// collection, and at most `max_in_flight` of them are not on disk yet. If the collection has no room for a request, it
// is offered again, for at most a minute; meanwhile the stream is not read, and HTTP/2 flow control holds the client
// back. So a stream holds one message, beside those in the collection's queue. The first error ends the stream, once
// the writes that were handed over are done; its message names the request. Cancelling a stream undoes nothing. `admit`
// is called when the stream begins and for each request; an error ends the stream, and so, with UNAVAILABLE, does
// draining the registry. Each request has a span of `tracer` (may be null), whose parent is in the stream's metadata;
// each further offer has another. The stream is in progress for `tracker` until gRPC has released it.
grpc::ServerReadReactor<grpc::ByteBuffer>* StartUpsertStream(grpc::CallbackServerContext* context,
                                                             grpc::ByteBuffer* response, service::DocumentApi* service,
                                                             std::function<absl::Status()> admit, uint64_t client,
                                                             int max_in_flight, StreamRegistry* registry,
                                                             service::CallTracker* tracker,
                                                             const tracing::Tracer* tracer);

}  // namespace maxsim::rpc
