#include "server/live/stream/nats_bucket.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "client/error_details.h"

namespace maxsim::live::nats {
namespace {

constexpr absl::Duration kMaxCallTime = absl::Seconds(2);

// The maximum number of attempts of PublishIfLast. An attempt fails if a message of another key comes between its
// steps.
constexpr int kMaxAttempts = 16;

// The header of a message that removes a key, and its value.
constexpr char kOperation[] = "KV-Operation";
constexpr char kRemove[] = "DEL";

using Store = std::unique_ptr<kvStore, Destroyer<kvStore_Destroy>>;
using Acknowledgement = std::unique_ptr<jsPubAck, Destroyer<jsPubAck_Destroy>>;

}  // namespace

absl::StatusOr<std::shared_ptr<Bucket>> Bucket::Connect(const NatsOptions& options, const std::string& server,
                                                        const std::string& bucket) {
  const absl::Duration call_time = std::min(options.timeout, kMaxCallTime);
  const absl::StatusOr<Options> made = MakeOptions(options, Cat("maxsimd bucket ", bucket), call_time);
  if (!made.ok()) return made.status();
  const std::shared_ptr<Bucket> connected(new Bucket(server, bucket));
  natsConnection* connection = nullptr;
  if (const natsStatus status = natsConnection_Connect(&connection, made->get()); status != NATS_OK) {
    return absl::UnavailableError(Cat(server, ": no connection: ", LastError(status)));
  }
  connected->connection_.reset(connection);
  jsOptions js_options;
  jsOptions_Init(&js_options);
  js_options.Wait = std::max<int64_t>(absl::ToInt64Milliseconds(call_time), 1);
  jsCtx* context = nullptr;
  if (const natsStatus status = natsConnection_JetStream(&context, connection, &js_options); status != NATS_OK) {
    return absl::UnavailableError(Cat(server, ": no JetStream: ", LastError(status)));
  }
  connected->jet_stream_.reset(context);
  return connected;
}

absl::StatusOr<Watcher> Bucket::WatchAll(int replicas) {
  absl::StatusOr<Watcher> watcher = TryWatchAll(replicas);
  if (watcher.ok()) return watcher;
  return WithPermissions(watcher.status());
}

absl::StatusOr<Watcher> Bucket::TryWatchAll(int replicas) {
  const absl::StatusOr<Info> info = FindOrCreateBucket(jet_stream_.get(), names_, replicas);
  if (!info.ok()) return info.status();
  if (absl::Status status = CheckBucket(**info, names_); !status.ok()) return status;
  kvStore* made_store = nullptr;
  natsStatus status = js_KeyValue(&made_store, jet_stream_.get(), bucket_.c_str());
  const Store store(made_store);
  kvWatcher* made_watcher = nullptr;
  if (status == NATS_OK) status = kvStore_WatchAll(&made_watcher, made_store, nullptr);
  Watcher watcher(made_watcher);  // it shares the store
  if (status == NATS_OK) return watcher;
  return absl::UnavailableError(Cat(server_, ": no watcher of bucket ", bucket_, ": ", LastError(status)));
}

absl::Status Bucket::Failure(const std::string& key, natsStatus status, jsErrCode code) const {
  const std::string text = Cat(server_, ": key ", key, " of bucket ", bucket_, ": ", LastError(status));
  if (status == NATS_MAX_PAYLOAD) return absl::FailedPreconditionError(Cat(text, "; raise max_payload of nats-server"));
  // NATS does not answer while the bucket has no leader. The library then returns NATS_NO_RESPONDERS and, misleadingly,
  // the code for a server without JetStream.
  if (code == jsErrCode{} || status == NATS_NO_RESPONDERS) return WithPermissions(absl::UnavailableError(text));
  switch (code) {
    case JSClusterNotAvailErr:
    case JSStreamNotFoundErr:  // it is created when the keys are read again
      return absl::UnavailableError(text);
    case JSAccountResourcesExceededErr:
    case JSInsufficientResourcesErr:
    case JSMemoryResourcesExceededErr:
    case JSStorageResourcesExceededErr:
    case JSStreamStoreFailedErr:
      return absl::ResourceExhaustedError(text);
    default:
      return absl::FailedPreconditionError(text);
  }
}

// NATS does not answer a request that it forbids. It sends an error about the connection instead, which the library
// keeps.
absl::Status Bucket::WithPermissions(absl::Status status) const {
  const char* text = nullptr;
  if (!absl::IsUnavailable(status) || natsConnection_GetLastError(connection_.get(), &text) != NATS_NOT_PERMITTED) {
    return status;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(status.message(), "; the account's permissions forbid it: it must be allowed to publish to ",
                   names_.subjects, ", $JS.API.> and $JS.FC.>, and to subscribe to _INBOX.>"));
}

absl::StatusOr<uint64_t> Bucket::Publish(const std::string& key, std::optional<std::string_view> value) {
  jsPubOptions options;
  jsPubOptions_Init(&options);
  return Send(key, value, &options);
}

absl::StatusOr<uint64_t> Bucket::PublishIfLast(const std::string& key, std::optional<std::string_view> value,
                                               uint64_t expected_sequence) {
  for (int i = 0; i < kMaxAttempts; ++i) {
    // The order of these calls matters: if the bucket's last message is still the same when NATS stores this one, the
    // key's last message is, too.
    const absl::StatusOr<Info> info = FindStream(jet_stream_.get(), names_);
    if (!info.ok()) return absl::UnavailableError(info.status().message());
    const absl::StatusOr<LastMessage> last = LastOf(key);
    if (!last.ok()) return last.status();
    if (last->sequence != expected_sequence) return 0;
    jsPubOptions options;
    jsPubOptions_Init(&options);
    options.ExpectLastSeq = (*info)->State.LastSeq;
    options.ExpectNoMessage = (*info)->State.LastSeq == 0;  // the library sends no expected last sequence of 0
    absl::StatusOr<uint64_t> stored = Send(key, value, &options);
    if (!stored.ok() || *stored > 0) return stored;
  }
  absl::Status status =
      absl::UnavailableError(Cat(server_, ": key ", key, ": the keys of bucket ", bucket_, " change all the time"));
  client::SetReason(client::kReasonNothingWritten, status);
  return status;
}

// Returns 0 if NATS refuses the message because of an expectation in `options`.
absl::StatusOr<uint64_t> Bucket::Send(const std::string& key, std::optional<std::string_view> value,
                                      jsPubOptions* options) {
  const std::string_view data = value.value_or("");
  natsMsg* made = nullptr;
  natsStatus status =
      natsMsg_Create(&made, SubjectOf(key).c_str(), nullptr, data.data(), static_cast<int>(data.size()));
  const Message message(made);
  if (status == NATS_OK && !value.has_value()) status = natsMsgHeader_Set(made, kOperation, kRemove);
  options->ExpectStream = names_.name.c_str();
  jsPubAck* acknowledgement = nullptr;
  jsErrCode code = {};
  if (status == NATS_OK) status = js_PublishMsg(&acknowledgement, jet_stream_.get(), made, options, &code);
  const Acknowledgement owned(acknowledgement);
  if (code == JSStreamWrongLastSequenceErr) return 0;
  if (status != NATS_OK) return Failure(key, status, code);
  return acknowledgement->Sequence;
}

absl::StatusOr<LastMessage> Bucket::LastOf(const std::string& key) {
  natsMsg* made = nullptr;
  jsErrCode code = {};
  const natsStatus status =
      js_GetLastMsg(&made, jet_stream_.get(), names_.name.c_str(), SubjectOf(key).c_str(), nullptr, &code);
  const Message message(made);
  if (status == NATS_NOT_FOUND || code == JSNoMessageFoundErr) return LastMessage();
  if (status != NATS_OK) return Failure(key, status, code);
  LastMessage last{.sequence = natsMsg_GetSequence(made)};
  if (!HeaderOf(made, kOperation).empty()) return last;
  const int size = natsMsg_GetDataLength(made);
  last.value = size <= 0 ? "" : std::string(natsMsg_GetData(made), static_cast<size_t>(size));
  return last;
}

}  // namespace maxsim::live::nats
