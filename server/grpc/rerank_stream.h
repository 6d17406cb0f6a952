// RerankStream: a pipeline of rerank requests over one call.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/grpc/messages/answer_budget.h"
#include "server/grpc/stream_registry.h"
#include "server/service/api.h"
#include "server/service/call/call_tracker.h"
#include "server/tracing/tracer.h"

namespace maxsim::rpc {

// Serves one stream. While `max_in_flight` requests are unanswered, or more than `answers`->max_stream_bytes() of
// answers are unread, the stream is not read, and HTTP/2 flow control holds the client back. Its requests are those of
// `client` (ClientOf). Answers are written in order of completion. An error of one request is answered in the stream,
// and that of a message which is not a request without an id. The stream itself ends with OK when the client has closed
// its side and everything is answered, and with UNAVAILABLE when the registry drains. `admit` is called when the stream
// begins and for each request; an error that it returns ends the stream once earlier requests are answered. Each
// request has a span of `tracer` (may be null), whose parent is in the stream's metadata. The stream is in progress for
// `tracker` until gRPC has released it.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartRerankStream(
    grpc::CallbackServerContext* context, service::RerankApi* service, std::function<absl::Status()> admit,
    uint64_t client, int max_in_flight, AnswerBudget* answers, StreamRegistry* registry, service::CallTracker* tracker,
    const tracing::Tracer* tracer);

}  // namespace maxsim::rpc
