// An encoder that is called over HTTP, in one of the dialects of dialect.h.
//
// One thread owns the queue, the circuit breaker and the connections, so they need no locks. Large answers are parsed
// on other threads, so that small ones do not wait for them. Texts of concurrent requests share a call. If the encoder
// refuses the texts of a call, each request is sent again on its own, so that only the one at fault fails. A call still
// runs to its end when all of its requests have been cancelled, because its outcome shows whether the encoder works.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/encoder/encoder.h"
#include "server/encoder/http_options.h"
#include "server/observability/metrics.h"

namespace maxsim::encoder {

class HttpEncoder final : public Encoder {
 public:
  // Reads the token and the certificates. It does not call the encoder, which may therefore start later. Logs a warning
  // if the encoder cannot tell queries from documents. `metrics` may be null and must outlive the result. Returns
  // INVALID_ARGUMENT, NOT_FOUND or PERMISSION_DENIED with the configuration key at fault.
  static absl::StatusOr<std::unique_ptr<HttpEncoder>> Create(HttpEncoderOptions options, Metrics* metrics);

  // Ends every request that is still in progress.
  ~HttpEncoder() override;

  EncoderIdentity identity() const override;
  std::shared_ptr<Cancellation> Encode(EncodeRequest request, Done done) override;

 private:
  class Impl;
  explicit HttpEncoder(std::shared_ptr<Impl> impl);

  const std::shared_ptr<Impl> impl_;
};

}  // namespace maxsim::encoder
