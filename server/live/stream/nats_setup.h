// Looks up, creates and checks what the servers need in JetStream: the stream of a collection, and the bucket of keys
// that all servers share. Internal to nats_stream.cc and nats_bucket.*.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/live/stream/nats_library.h"
#include "server/live/stream/ordered_stream.h"

namespace maxsim::live::nats {

// Names a stream.
struct StreamNames {
  std::string server;    // for error messages
  std::string name;      // StreamNameOf
  std::string subjects;  // SubjectsOf
};

// Names the stream of a bucket, as all clients of NATS name it: KV_BUCKET, with the subjects $KV.BUCKET.>
StreamNames BucketNames(const std::string& server, const std::string& bucket);

// Looks up the stream. Returns NOT_FOUND if it does not exist, or UNAVAILABLE if the server does not answer, or if its
// answer lacks the configuration or the time of creation.
absl::StatusOr<Info> FindStream(jsCtx* jet_stream, const StreamNames& names);

// Looks up the stream; creates it, with `replicas` copies, if it does not exist. The result always comes from a
// look-up, because the answer to a creation is not reliable if several servers create the stream at the same time: the
// answer may then have another time of creation than the stream, or be an error although the stream exists. Returns
// UNAVAILABLE if the server does not answer, or FAILED_PRECONDITION if it refuses.
absl::StatusOr<Info> FindOrCreateStream(jsCtx* jet_stream, const StreamNames& names, int replicas);

// Like FindOrCreateStream, for the stream of a bucket, which keeps the last kBucketHistory values of each key.
absl::StatusOr<Info> FindOrCreateBucket(jsCtx* jet_stream, const StreamNames& names, int replicas);
inline constexpr int kBucketHistory = 5;

// Returns FAILED_PRECONDITION unless the stream's settings suit a collection whose writes have the time limit
// `timeout`.
absl::Status CheckSettings(const jsStreamInfo& info, const StreamNames& names, absl::Duration timeout);

// Returns the limits of a stream, and how much of them it uses at the time `now` of its server's clock. The maximum
// numbers of messages and bytes are such limits only if the stream drops old messages beyond them (discard old);
// otherwise it refuses new ones.
StreamRetention RetentionOf(const jsStreamInfo& info, absl::Time now);

// Returns FAILED_PRECONDITION unless the stream is that of a bucket whose values stay until they are replaced.
absl::Status CheckBucket(const jsStreamInfo& info, const StreamNames& names);

}  // namespace maxsim::live::nats
