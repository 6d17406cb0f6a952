// A bucket of keys in NATS JetStream.
#pragma once

#include <memory>
#include <string>

#include "server/live/local/nats_options.h"
#include "server/live/shared/key_value_store.h"

namespace maxsim::live {

// Returns the store of all servers with this nats.stream_prefix: the bucket of that name, which any client of NATS can
// read (`nats kv get PREFIX KEY`). Nothing happens before the first Add. Then a thread connects, with a connection of
// its own, and creates the bucket if it does not exist: on disk, with options.replicas copies, without limits. It keeps
// the last 5 values of each key. An existing bucket is used with its settings.
std::unique_ptr<KeyValueStore> MakeNatsKeys(const NatsOptions& options);

}  // namespace maxsim::live
