// An interface that sends HTTP requests. Tests implement it without a network.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace maxsim::backup {

struct HttpRequest {
  std::string method;
  std::string target;  // path and query, encoded
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string_view body = {};
  size_t max_response_bytes = 0;
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::string body = {};
};

// Thread-safe.
class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  // Sends a request, and waits for the whole response. Does not follow redirects. Returns UNAVAILABLE if the connection
  // cannot be made or breaks, or if the other side is silent for too long; FAILED_PRECONDITION if its certificate is
  // not trusted, or if no certificate can be read from the CA file; DATA_LOSS if the response is longer than
  // max_response_bytes. Errors contain nothing of the request except its method, so they reveal no secret.
  virtual absl::StatusOr<HttpResponse> Send(const HttpRequest& request) = 0;
};

// Returns a transport to `origin`, "http[s]://HOST[:PORT]". Concurrent calls of Send use separate connections, which
// later calls reuse. With https, the server's certificate must be for HOST, and signed by an authority in `ca_file` or,
// if that is "", by one of the system's.
std::unique_ptr<HttpTransport> MakeHttpTransport(std::string origin, std::string ca_file);

}  // namespace maxsim::backup
