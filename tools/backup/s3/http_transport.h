// Sends HTTP requests. Tests replace it.
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
  // Sends a request, and waits for the whole response. Follows no redirection. Returns UNAVAILABLE if the connection
  // cannot be made or breaks, or if the other side is silent for too long; FAILED_PRECONDITION if its certificate is
  // not trusted; DATA_LOSS for a response longer than the limit. No message has any part of the request.
  virtual absl::StatusOr<HttpResponse> Send(const HttpRequest& request) = 0;
};

// Returns a transport to `origin`, "http[s]://HOST[:PORT]". It keeps as many connections as calls of Send run at the
// same time. Certificates must be signed by an authority of `ca_file` or, if that is "", of the system, and be for
// HOST.
std::unique_ptr<HttpTransport> MakeHttpTransport(std::string origin, std::string ca_file);

}  // namespace maxsim::backup
