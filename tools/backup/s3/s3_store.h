// Objects in a bucket that speaks the S3 protocol: AWS, MinIO, Ceph and others.
#pragma once

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "tools/backup/s3/http_transport.h"
#include "tools/backup/s3/s3_settings.h"
#include "tools/backup/store/object_store.h"

namespace maxsim::backup {

// Size of the parts of an object that is larger than this.
inline constexpr uint64_t kUploadPartBytes = uint64_t{16} << 20;
// The most parts that S3 takes. The parts of an object beyond kMaxUploadParts x kUploadPartBytes are larger.
inline constexpr uint64_t kMaxUploadParts = 10'000;
// The most often that one request is sent.
inline constexpr int kMaxS3Attempts = 7;

// Returns the size of all parts but the last of an object of so many bytes.
uint64_t UploadPartBytes(uint64_t num_bytes);

// The time, which tests replace.
struct S3Clock {
  std::function<absl::Time()> now;            // the wall clock: a store refuses signatures of another time
  std::function<void(absl::Duration)> sleep;  // between two attempts
  std::function<double()> random;             // 0 .. 1
  static S3Clock Real();
};

// Requests are signed with Signature Version 4, bodies included. A request is sent again after a lost connection, after
// silence, and after the statuses 429 and 5xx: up to kMaxS3Attempts times, with growing pauses, 20 s at most.
//
// Returns PERMISSION_DENIED and UNAUTHENTICATED if the store refuses the credentials; NOT_FOUND without the object or
// the bucket; UNAVAILABLE if all attempts failed; FAILED_PRECONDITION for other refusals; DATA_LOSS for answers that
// are not of the protocol. Messages have the object's URL, the call, the status, and the store's code of the error.
std::unique_ptr<ObjectStore> MakeS3Store(S3Settings settings, std::unique_ptr<HttpTransport> transport,
                                         S3Clock clock = S3Clock::Real());

}  // namespace maxsim::backup
