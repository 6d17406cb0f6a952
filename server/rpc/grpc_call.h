// What every gRPC handler does first and last: who calls, until when, and how an error leaves.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "server/rpc/auth.h"

namespace maxsim::rpc {

// UNAUTHENTICATED unless the call's metadata carries a known token.
absl::Status Authenticate(const Authenticator& authenticator, const grpc::CallbackServerContext& context);

// InfiniteFuture for a call without a deadline.
absl::Time DeadlineOf(const grpc::CallbackServerContext& context);

// Adds the trailing metadata that goes with the status (a retry hint).
void AddTrailers(const absl::Status& status, grpc::CallbackServerContext& context);

}  // namespace maxsim::rpc
