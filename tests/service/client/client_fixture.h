// Connects clients to a fake server whose errors each test chooses, and makes answers for the fake server.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "client/client.h"
#include "client/status.h"
#include "gtest/gtest.h"
#include "tests/support/fake_server.h"
#include "tests/support/values/eventually.h"

namespace maxsim::client {

inline std::unique_ptr<Client> Connect(const test::FakeServer& server, ClientOptions options = {}) {
  options.target = server.target();
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Create(options);
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

inline grpc::Status QueueFull(absl::Duration retry_after) {
  absl::Status status = absl::ResourceExhaustedError("queue full");
  SetRetryAfter(retry_after, status);
  return ToGrpcStatus(status);
}

inline v1::RerankRequest Request(const std::string& id) {
  v1::RerankRequest request;
  request.set_request_id(id);
  request.set_collection("c");
  return request;
}

// Waits until the server is told that the client cancelled the call. A handler that returned immediately would not
// notice if cancellations never arrived.
inline grpc::Status WaitUntilCancelled(grpc::ServerContext& context) {
  return test::Eventually([&] { return context.IsCancelled(); })
             ? grpc::Status::CANCELLED
             : grpc::Status(grpc::StatusCode::INTERNAL, "never cancelled");
}

}  // namespace maxsim::client
