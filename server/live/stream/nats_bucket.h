// A connection to a bucket of keys in JetStream. Internal to nats_keys.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/text.h"
#include "server/live/local/nats_options.h"
#include "server/live/stream/nats_library.h"
#include "server/live/stream/nats_setup.h"

namespace maxsim::live::nats {

// The last message about a key.
struct LastMessage {
  uint64_t sequence = 0;                  // 0: there never was one
  std::optional<std::string> value = {};  // nullopt: the message removed the key, or there is none
};

using Watcher = std::unique_ptr<kvWatcher, Destroyer<kvWatcher_Destroy>>;

// Thread-safe. Each function that asks NATS blocks for at most a few times the time limit of a call: 2 s, or
// nats.timeout if that is shorter. Its errors are UNAVAILABLE if NATS does not answer, RESOURCE_EXHAUSTED if it has no
// room, and FAILED_PRECONDITION if it refuses.
class Bucket {
 public:
  // Connects. `server` is for error messages.
  static absl::StatusOr<std::shared_ptr<Bucket>> Connect(const NatsOptions& options, const std::string& server,
                                                         const std::string& bucket);

  bool is_connected() const { return natsConnection_Status(connection_.get()) == NATS_CONN_STATUS_CONNECTED; }
  // Returns whether the connection is lost for good. Otherwise the library connects again.
  bool is_closed() const { return natsConnection_Status(connection_.get()) == NATS_CONN_STATUS_CLOSED; }
  uint64_t num_reconnects() const { return NumReconnects(connection_.get()); }

  // Creates the bucket if it does not exist, with `replicas` copies, checks its settings, and watches all keys.
  absl::StatusOr<Watcher> WatchAll(int replicas);

  // Sends the value of a key. nullopt removes the key. Returns the new sequence.
  absl::StatusOr<uint64_t> Publish(const std::string& key, std::optional<std::string_view> value);

  // Like Publish, but only if the key's last message has the sequence `expected_sequence` (0: there is none). Returns 0
  // if it has another one. Of concurrent calls with the same expectation, one at most stores its value. UNAVAILABLE
  // with the reason NOTHING_WRITTEN means that other keys changed during each attempt.
  //
  // JetStream can also check the last sequence of the key alone. But nats-server 2.9 with several copies checks it
  // before the messages in flight are stored (jetstream_cluster.go, processClusteredInboundMsg), so that it stores two
  // messages with the same expectation. The last sequence of the whole stream is checked when a message is stored.
  absl::StatusOr<uint64_t> PublishIfLast(const std::string& key, std::optional<std::string_view> value,
                                         uint64_t expected_sequence);

  // Asks the leader of the bucket's stream, because other servers may not have the last message yet.
  absl::StatusOr<LastMessage> LastOf(const std::string& key);

 private:
  Bucket(const std::string& server, std::string bucket)
      : server_(server), bucket_(std::move(bucket)), names_(BucketNames(server, bucket_)) {}

  absl::StatusOr<Watcher> TryWatchAll(int replicas);
  absl::StatusOr<uint64_t> Send(const std::string& key, std::optional<std::string_view> value, jsPubOptions* options);
  std::string SubjectOf(const std::string& key) const { return Cat("$KV.", bucket_, ".", key); }
  absl::Status Failure(const std::string& key, natsStatus status, jsErrCode code) const;
  absl::Status WithPermissions(absl::Status status) const;

  const std::string server_;
  const std::string bucket_;
  const StreamNames names_;
  Connection connection_;
  JetStream jet_stream_;  // declared after the connection that it uses
};

}  // namespace maxsim::live::nats
