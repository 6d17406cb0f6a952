// RerankStream: a pipeline of rerank requests over one call.
#pragma once

#include <cstdint>

#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/messages/answer_budget.h"
#include "server/grpc/stream_registry.h"
#include "server/service/api.h"
#include "server/service/call/call_tracker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

// Serves one stream of rerank requests. It stops reading while `max_in_flight` requests are unanswered or more than
// `answers`->max_stream_bytes() of answers are unread; HTTP/2 flow control then holds the client back. All requests
// count as those of `client` (ClientOf). Answers are written in order of completion. If a request fails or cannot be
// parsed, its error is an answer in the stream; in the second case the answer's request id is empty.
//
// The stream ends with OK when the client has closed its side and all requests are answered, and with UNAVAILABLE when
// the registry drains. Calls `admit` when the stream begins and for each request. If `admit` returns an error, the
// stream ends with that error when the earlier requests are answered. Each request has a span of `tracer` (may be
// null), whose parent is in the stream's metadata. `tracker` counts the stream as in progress until gRPC has released
// it.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartRerankStream(
    grpc::CallbackServerContext* context, service::RerankApi* service, AdmitRequest admit, uint64_t client,
    int max_in_flight, AnswerBudget* answers, StreamRegistry* registry, service::CallTracker* tracker,
    const tracing::Tracer* tracer);

}  // namespace maxsim::rpc
