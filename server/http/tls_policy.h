// Decides which requests need TLS and which need a client certificate. Internal to server/http.
#pragma once

#include "absl/status/status.h"
#include "server/http/http_server.h"
#include "server/http/transport/transport.h"

namespace maxsim::http {

// For a port with certificates. OK if the request may be served as it came, FAILED_PRECONDITION if it needs TLS,
// UNAUTHENTICATED if it needs a client certificate (`asks_clients`). Probes and metrics need no certificate, and TLS
// only with PlainText::kNothing; every other path, known or not, needs both.
absl::Status CheckTls(const Request& request, PlainText plain_text, bool asks_clients);

}  // namespace maxsim::http
