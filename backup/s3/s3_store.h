// An ObjectStore in a bucket of a store that speaks the S3 protocol: AWS, MinIO, Ceph and others.
#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "backup/s3/http_transport.h"
#include "backup/s3/s3_settings.h"
#include "backup/store/object_store.h"
#include "base/stop.h"

namespace maxsim::backup {

// An object larger than this is uploaded in parts of this size.
inline constexpr uint64_t kUploadPartBytes = uint64_t{16} << 20;
// The maximum number of parts that S3 accepts. An object larger than kMaxUploadParts x kUploadPartBytes has larger
// parts.
inline constexpr uint64_t kMaxUploadParts = 10'000;
// The maximum number of times that one request is sent, including the first time.
inline constexpr int kMaxS3Attempts = 7;
// After this time no further attempt begins. The last attempt may wait two minutes for a silent store, so a request
// takes about four minutes at most. That is less than the five minutes after which a server ends a snapshot whose
// reader takes nothing, so the user sees the store's error.
inline constexpr absl::Duration kMaxS3RetryTime = absl::Minutes(2);

// Returns the size of each part, except for the last one, of an object that has `num_bytes` bytes.
uint64_t UploadPartBytes(uint64_t num_bytes);

// The time and the random numbers that the store uses. Tests replace them.
struct S3Clock {
  std::function<absl::Time()> steady;         // a clock that is never set, for time limits
  std::function<absl::Time()> now;            // the wall clock: a store refuses signatures of another time
  std::function<void(absl::Duration)> sleep;  // between two attempts
  std::function<double()> random;             // 0 .. 1
  static S3Clock Real();
};

// Returns a store that signs requests with Signature Version 4, bodies included. It sends a request again if the
// connection was lost, the server was silent, the status is 429 or 5xx, or S3's error code permits it: up to
// kMaxS3Attempts times in all, with growing pauses of at most 10 s, and not after kMaxS3RetryTime. Once `stop` (may be
// null; must outlive the store) is stopped, requests return its status before their next attempt, except that an upload
// is still aborted.
//
// The store's functions return PERMISSION_DENIED or UNAUTHENTICATED if the server refuses the credentials; NOT_FOUND if
// there is no such object or bucket; UNAVAILABLE if all attempts failed; FAILED_PRECONDITION for other refusals;
// DATA_LOSS for answers that do not follow the protocol. Messages contain the object's URL, the HTTP method, the
// status, and S3's error code.
std::unique_ptr<ObjectStore> MakeS3Store(S3Settings settings, std::unique_ptr<HttpTransport> transport,
                                         S3Clock clock = S3Clock::Real(), const StopSignal* stop = nullptr);

}  // namespace maxsim::backup
