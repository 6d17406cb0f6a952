// Where the streams of live collections are: the keys nats.* of the configuration.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace maxsim::live {

struct NatsOptions {
  std::string url;               // of servers, with commas between them, such as nats://a:4222,nats://b:4222
  std::string credentials_file;  // of NATS, with a JWT and a seed; "": none
  std::string tls_ca_file;       // what the servers' certificates are checked with; "": no TLS, unless the url asks
  int replicas = 3;              // copies of a stream that this server creates
  std::string stream_prefix = "maxsim";
  absl::Duration timeout = absl::Seconds(5);  // of a write, until it is applied
};

}  // namespace maxsim::live
