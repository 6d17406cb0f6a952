// Says what may be asked for without TLS, and without a client's certificate. It is internal to server/http.
#pragma once

#include "absl/status/status.h"
#include "server/http/http_server.h"
#include "server/http/transport/transport.h"

namespace maxsim::http {

// OK where the request may come as it came, on a port with certificates. FAILED_PRECONDITION where it wants TLS,
// UNAUTHENTICATED where it wants a client's certificate (`asks_clients`). Probes and metrics want no certificate, and
// TLS only with PlainText::kNothing; everything else wants both, paths that nobody knows too.
absl::Status CheckTls(const Request& request, PlainText plain_text, bool asks_clients);

}  // namespace maxsim::http
