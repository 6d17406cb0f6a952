// Has UpsertStream, a pipeline of writes over one call.
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

// Serves one stream. Its requests are written in their order: one is read when the one before has been handed to the
// collection, and at most `max_in_flight` of them are not on the disk yet. What the collection has no room for is
// offered to it again, for a minute at most, and the stream is not read meanwhile: HTTP/2 flow control holds the client
// back. So a stream holds one message, beside what the collection's queue holds. The first error ends the stream, once
// what was handed over is written; its message names the request. A stream that is cancelled undoes nothing. `admit` is
// asked when the stream begins and for every request that it brings; what is not OK ends the stream. It ends with
// UNAVAILABLE when the registry drains. Each request has a span of `tracer` (may be null), within that of the stream's
// metadata; one that is offered again has another. For `tracker` it is in progress until gRPC has let go of it.
grpc::ServerReadReactor<grpc::ByteBuffer>* StartUpsertStream(grpc::CallbackServerContext* context,
                                                             grpc::ByteBuffer* response, service::DocumentApi* service,
                                                             std::function<absl::Status()> admit, uint64_t client,
                                                             int max_in_flight, StreamRegistry* registry,
                                                             service::CallTracker* tracker,
                                                             const tracing::Tracer* tracer);

}  // namespace maxsim::rpc
