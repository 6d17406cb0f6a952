// The NATS servers that have the streams of live collections: the keys nats.* of the configuration.
#pragma once

#include <string>

#include "absl/time/time.h"

namespace maxsim::live {

struct NatsOptions {
  std::string url;               // of the servers, separated by commas, such as nats://a:4222,nats://b:4222
  std::string credentials_file;  // of NATS, with a JWT and a seed; "": none
  std::string tls_ca_file;       // checks the servers' certificates; "": no TLS, unless the url demands it
  int replicas = 3;              // copies of a stream that this server creates
  std::string stream_prefix = "maxsim";
  absl::Duration timeout = absl::Seconds(5);  // the time in which a write must be applied
};

}  // namespace maxsim::live
