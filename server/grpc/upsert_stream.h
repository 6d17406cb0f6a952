// UpsertStream: a pipeline of writes over one call.
#pragma once

#include <cstdint>

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/stream_registry.h"
#include "server/service/api.h"
#include "server/service/call/call_tracker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

inline constexpr char kUpsertStream[] = "UpsertStream";  // as the metrics name it

// Serves one stream of upsert requests, which are written in order. The stream reads a request when it has handed the
// previous one to the collection and fewer than `max_in_flight` requests are handed over but not yet on disk. If the
// collection has no room for a request, the stream offers it again, for at most a minute. Meanwhile it does not read,
// and HTTP/2 flow control holds the client back. So a stream holds one message, in addition to those in the
// collection's queue.
//
// The first error ends the stream when the writes that were handed over are done; its message names the request.
// Cancelling a stream undoes no writes. Calls `admit` when the stream begins and for each request; an error of `admit`
// ends the stream. The stream ends with UNAVAILABLE when the registry drains. Each offer of a request has a span of
// `tracer` (may be null), whose parent is in the stream's metadata. `tracker` counts the stream as in progress until
// gRPC has released it.
grpc::ServerReadReactor<grpc::ByteBuffer>* StartUpsertStream(grpc::CallbackServerContext* context,
                                                             grpc::ByteBuffer* response, service::DocumentApi* service,
                                                             AdmitRequest admit, uint64_t client, int max_in_flight,
                                                             StreamRegistry* registry, service::CallTracker* tracker,
                                                             const tracing::Tracer* tracer);

}  // namespace maxsim::rpc
