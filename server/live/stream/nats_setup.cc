#include "server/live/stream/nats_setup.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/text.h"

namespace maxsim::live::nats {
namespace {

// The server drops a message if it has stored a message with the same id within this time.
constexpr absl::Duration kDuplicateWindow = absl::Minutes(2);

absl::Status Away(const StreamNames& names, natsStatus status) {
  return absl::UnavailableError(Cat(names.server, ": stream ", names.name, ": ", LastError(status)));
}

// Returns the settings that all streams have. They point to `names` and to `subjects`, which has room for one pointer.
// Both must outlive the result.
jsStreamConfig ConfigOf(const StreamNames& names, const char** subjects, int replicas) {
  jsStreamConfig config;
  jsStreamConfig_Init(&config);
  *subjects = names.subjects.c_str();
  config.Name = names.name.c_str();
  config.Subjects = subjects;
  config.SubjectsLen = 1;
  config.Retention = js_LimitsPolicy;
  config.Discard = js_DiscardNew;
  config.Storage = js_FileStorage;
  config.Replicas = replicas;
  config.DenyDelete = true;
  return config;
}

// Asks the server to create the stream. The error is that of this request, and does not say whether the stream exists.
absl::Status RequestStream(jsCtx* jet_stream, const StreamNames& names, jsStreamConfig config) {
  jsErrCode code = {};
  const natsStatus status = js_AddStream(nullptr, jet_stream, &config, nullptr, &code);
  if (status == NATS_OK) return absl::OkStatus();
  if (code == JSStreamReplicasNotSupportedErr || code == JSClusterNoPeersErr || code == JSInsufficientResourcesErr) {
    return absl::FailedPreconditionError(Cat(names.server, " cannot make stream ", names.name, " with nats.replicas ",
                                             config.Replicas, ": ", LastError(status)));
  }
  if (status == NATS_TIMEOUT || status == NATS_NO_RESPONDERS || code == JSClusterNotAvailErr) {
    return Away(names, status);
  }
  return absl::FailedPreconditionError(Cat(names.server, " cannot make stream ", names.name, ": ", LastError(status)));
}

absl::StatusOr<Info> FindOrRequest(jsCtx* jet_stream, const StreamNames& names, const jsStreamConfig& config) {
  absl::StatusOr<Info> found = FindStream(jet_stream, names);
  if (!absl::IsNotFound(found.status())) return found;
  const absl::Status requested = RequestStream(jet_stream, names, config);
  found = FindStream(jet_stream, names);
  if (!absl::IsNotFound(found.status())) return found;
  if (!requested.ok()) return requested;
  return absl::UnavailableError(Cat(names.server, ": stream ", names.name, " was made, but is not there yet"));
}

}  // namespace

absl::StatusOr<Info> FindStream(jsCtx* jet_stream, const StreamNames& names) {
  jsStreamInfo* found = nullptr;
  jsErrCode code = {};
  const natsStatus status = js_GetStreamInfo(&found, jet_stream, names.name.c_str(), nullptr, &code);
  if (status == NATS_NOT_FOUND || code == JSStreamNotFoundErr) {
    return absl::NotFoundError(Cat(names.server, " has no stream ", names.name));
  }
  if (status != NATS_OK) return Away(names, status);
  Info info(found);
  if (info->Config == nullptr) {
    return absl::UnavailableError(Cat(names.server, ": stream ", names.name, " does not show its configuration"));
  }
  // A server may report the year 1 while it still sets the stream up.
  if (info->Created <= 0) {
    return absl::UnavailableError(Cat(names.server, ": stream ", names.name, " does not show when it was made"));
  }
  return info;
}

absl::StatusOr<Info> FindOrCreateStream(jsCtx* jet_stream, const StreamNames& names, int replicas) {
  const char* subjects = nullptr;
  jsStreamConfig config = ConfigOf(names, &subjects, replicas);
  config.Description = "Writes to a live collection of maxsimd, in the order in which its servers apply them";
  config.Duplicates = absl::ToInt64Nanoseconds(kDuplicateWindow);
  return FindOrRequest(jet_stream, names, config);
}

StreamNames BucketNames(const std::string& server, const std::string& bucket) {
  return {.server = server, .name = Cat("KV_", bucket), .subjects = Cat("$KV.", bucket, ".>")};
}

absl::StatusOr<Info> FindOrCreateBucket(jsCtx* jet_stream, const StreamNames& names, int replicas) {
  const char* subjects = nullptr;
  jsStreamConfig config = ConfigOf(names, &subjects, replicas);
  config.Description = "What the servers of maxsimd share: the layouts and settings of live collections";
  config.MaxMsgsPerSubject = kBucketHistory;
  // Other clients of buckets expect these.
  config.AllowRollup = true;
  config.AllowDirect = true;
  return FindOrRequest(jet_stream, names, config);
}

absl::Status CheckSettings(const jsStreamInfo& info, const StreamNames& names, absl::Duration timeout) {
  const jsStreamConfig& config = *info.Config;
  const auto wrong = [&](const auto&... what) {
    return absl::FailedPreconditionError(Cat(names.server, ": stream ", names.name, what...));
  };
  if (config.SubjectsLen != 1 || config.Subjects[0] != names.subjects) {
    return wrong(" has other subjects than ", names.subjects, ": it does not belong to a collection");
  }
  // With other settings the stream could have gaps, or could store a message twice if it is sent twice.
  if (config.Retention != js_LimitsPolicy || config.MaxMsgsPerSubject > 0 || config.NoAck) {
    return wrong(" must have retention by limits, acknowledgements, and no limit of messages per subject");
  }
  if (config.Duplicates < absl::ToInt64Nanoseconds(2 * timeout)) {
    return wrong(" drops duplicates for ", absl::FormatDuration(absl::Nanoseconds(config.Duplicates)),
                 "; must be at least twice nats.timeout, ", absl::FormatDuration(2 * timeout));
  }
  return absl::OkStatus();
}

StreamRetention RetentionOf(const jsStreamInfo& info, absl::Time now) {
  const jsStreamConfig& config = *info.Config;
  const bool drops_old = config.Discard == js_DiscardOld;
  const auto limit = [&](int64_t value) { return drops_old && value > 0 ? static_cast<uint64_t>(value) : 0; };
  const auto age = [&](int64_t stored_ns) {
    return info.State.Msgs == 0 ? absl::ZeroDuration()
                                : std::max(now - absl::FromUnixNanos(stored_ns), absl::ZeroDuration());
  };
  return {.max_age = absl::Nanoseconds(std::max<int64_t>(config.MaxAge, 0)),
          .max_messages = limit(config.MaxMsgs),
          .max_bytes = limit(config.MaxBytes),
          .num_bytes = info.State.Bytes,
          .oldest_age = age(info.State.FirstTime),
          .newest_age = age(info.State.LastTime)};
}

absl::Status CheckBucket(const jsStreamInfo& info, const StreamNames& names) {
  const jsStreamConfig& config = *info.Config;
  if (config.SubjectsLen != 1 || config.Subjects[0] != names.subjects || config.MaxMsgsPerSubject < 1) {
    return absl::FailedPreconditionError(Cat(names.server, ": stream ", names.name, " is not that of a bucket"));
  }
  if (config.MaxAge > 0) {
    return absl::FailedPreconditionError(Cat(names.server, ": bucket of stream ", names.name, " forgets values after ",
                                             absl::FormatDuration(absl::Nanoseconds(config.MaxAge)),
                                             "; it must have no maximum age"));
  }
  return absl::OkStatus();
}

}  // namespace maxsim::live::nats
