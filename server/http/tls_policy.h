// Decides which requests need TLS and which need a client certificate. Internal to server/http.
#pragma once

#include "absl/status/status.h"
#include "server/http/http_server.h"
#include "server/http/transport/transport.h"

namespace maxsim::http {

// Checks a request to a port with certificates. Returns FAILED_PRECONDITION if the request must use TLS and does not,
// UNAUTHENTICATED if it must have a client certificate and has none. Probes and metrics need no client certificate, and
// need TLS only with PlainText::kNothing. Every other path, known or not, needs TLS and, if `asks_clients`, a client
// certificate.
absl::Status CheckTls(const Request& request, PlainText plain_text, bool asks_clients);

}  // namespace maxsim::http
