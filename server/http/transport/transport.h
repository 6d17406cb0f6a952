// HTTP/1.1 over TCP: connections, framing, limits on sizes and times. The application decides what the paths mean. One
// thread moves all bytes, so a connection costs only memory and a file descriptor, and a slow or idle peer delays no
// other. Only TLS handshakes have their own threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/tls/tls_certificates.h"

namespace maxsim::http {

struct Request {
  std::string method;
  std::string path;              // without the query string
  std::string authorization;     // the header's value, "" without one
  std::string content_encoding;  // the values of all its lines, between commas
  std::string client_id;         // the value of TransportOptions::client_header
  std::string traceparent;       // the header's value, "" without one or with two, and without reads_trace_headers
  std::string tracestate;        // the values of all its lines, between commas
  std::string if_none_match;     // the header's value, "" without one
  std::string host;              // authority of the target, or else the Host header, with the port; "" if neither
  std::string origin;            // the Origin header; "" if there is none
  std::string peer;              // the client's address, without its port
  std::string body;
  absl::Time arrival;  // of its last byte
  // Becomes true if the client closes its connection, or its sending half, before it has the answer.
  std::shared_ptr<std::atomic<bool>> cancelled;
  bool encrypted = false;               // it came through TLS
  bool has_client_certificate = false;  // of an authority in tls.client_ca_file
};

// A header of an answer. The texts must live as long as the program, since they are used after the handler has
// returned.
struct ResponseHeader {
  std::string_view name;
  std::string_view value;
};

struct Response {
  int status = 200;
  std::string content_type;
  std::string body = {};       // must be empty with status 304
  uint32_t retry_after_s = 0;  // 0: no Retry-After
  std::string allow = {};      // methods, of a 405; "": no Allow
  std::string etag = {};       // with its quotes; "": no ETag
  std::vector<ResponseHeader> headers = {};
  absl::Status error = {};  // error in the body, for the records; OK if the call succeeded
};

// Answers the requests. The transport calls all members on its thread, so they must not block; Handle must pass longer
// work to other threads. An exception ends only the current request, with a 503 if possible.
class Application {
 public:
  using Reply = absl::AnyInvocable<void(Response)>;

  virtual ~Application() = default;

  // Called when the header of a request has been received; `request` has no body yet. If Begin returns a response, the
  // transport sends it and does not call Handle; if the request has a body, the connection then ends. If Begin returns
  // nullopt, the transport receives the body and calls Handle.
  virtual std::optional<Response> Begin(const Request& request) = 0;

  // Must call `reply` exactly once, from any thread.
  virtual void Handle(Request request, Reply reply) = 0;

  // Called at most once, when the grace period of Stop is over. The application must then answer the requests that it
  // still has at once, because Stop waits for them.
  virtual void EndGrace() {}

  // Called with the number of open connections when it changes.
  virtual void OnConnections(size_t num_open) {}

  // Makes the response to a request that the transport refuses with `status`: 400, 413, 429, 431, or 503 if memory ran
  // out. With 429, `why` is RESOURCE_EXHAUSTED for max_requests and UNAVAILABLE for max_body_memory. `request` is empty
  // if it could not be read.
  virtual Response Refuse(const Request& request, int status, const absl::Status& why) = 0;
};

struct TransportOptions {
  std::string host = "0.0.0.0";
  int port = 0;  // 0 picks a free one
  uint64_t max_body_bytes = uint64_t{16} << 20;
  // Limit of the received bytes of all bodies together. A body counts until its request has been answered. If another
  // body would exceed the limit, the transport closes connections whose bodies have been arriving for longer than
  // `slow_body`; if there are none, the request gets 429. Must be at least max_body_bytes.
  uint64_t max_body_memory = uint64_t{256} << 20;
  // Limit on requests whose body is being received, that the application is handling, or whose answer is being sent.
  // When the limit is reached and a new request comes, the transport closes the connection whose body has been
  // arriving longest, if that is longer than `slow_body`; otherwise the new request gets 429.
  int max_requests = 64;
  absl::Duration slow_body = absl::Seconds(1);
  // Header whose value goes to Request::client_id; "" for none.
  std::string client_header = {};
  // Whether to read the headers traceparent and tracestate.
  bool reads_trace_headers = false;
  // Limits on idle connections, which have no request that counts towards max_requests, per peer and in total. Beyond
  // the limit per peer, the peer's longest idle connection is closed; beyond the total, the longest idle connection
  // of the peer that has most. So a new connection, such as a probe's, is always served, and a peer with few
  // connections loses none to others.
  int max_idle_connections_per_peer = 256;
  int max_idle_connections = 1024;
  // TLS certificates, which must be loaded and must outlive the transport. If null, all connections are plain text.
  // With certificates, the first byte of a connection shows whether it is encrypted; the application decides which
  // requests may come in plain text.
  const TlsCertificates* certificates = nullptr;
  // Each of these times limits a whole phase, however often bytes arrive. A connection that takes longer is closed.
  absl::Duration idle_timeout = absl::Seconds(60);       // until the first byte of a handshake or a request
  absl::Duration handshake_timeout = absl::Seconds(10);  // of TLS
  absl::Duration header_timeout = absl::Seconds(10);
  absl::Duration body_timeout = absl::Seconds(30);
  absl::Duration write_timeout = absl::Seconds(30);
  absl::Duration linger_timeout = absl::Seconds(2);  // for a refused client to stop sending and read the refusal
};

inline constexpr uint32_t kMaxHeaderBytes = 16 * 1024;  // of a request, all lines together

class Transport {
 public:
  // `application` must outlive the transport.
  Transport(TransportOptions options, Application* application);
  ~Transport();  // stops, without grace

  // Binds and begins to serve; returns the port. If that fails, returns UNAVAILABLE with the system's reason.
  absl::StatusOr<int> Start();

  // Closes the port, and all connections except those whose request is being handled or whose answer is being sent.
  // Waits for these, and joins the thread. Cuts off an answer that the client has not read by the end of `grace`, or
  // within a second if the answer is ready later. Idempotent.
  void Stop(absl::Duration grace);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace maxsim::http
