// The settings of created live collections that all servers with the same NATS prefix share, and the interface through
// which the services read and set them. The implementation is server/live/shared/shared_collections.h.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collection/compact/create.h"
#include "server/store/memory/residency.h"

namespace maxsim::store {

// The settings of one collection.
struct SharedSettings {
  // Servers share all options except created_by and partition, which differ from server to server.
  collection::CreateOptions options;
  // A server that creates the collection from shared settings uses these two values. They may differ between servers.
  Residency residency = Residency::kAuto;
  bool replicate = false;
  // About the server that shared the settings: whether it created only a part of the collection, and its cluster.group.
  bool is_partitioned = false;
  std::string group = {};
};

// The class is thread-safe.
class SettingsRegistry {
 public:
  virtual ~SettingsRegistry() = default;

  // Returns FAILED_PRECONDITION about the first setting that differs from those that are shared under this name, as far
  // as this server has read them. Returns OK if no settings are shared under it. Does not block.
  virtual absl::Status Check(const SharedSettings& settings) const = 0;

  // Shares the settings under their name. Returns whether this call has stored them: false if the same settings were
  // shared before. Blocks for at most nats.timeout and the time limits of a few calls. Returns FAILED_PRECONDITION
  // about the first setting that differs from those that are shared already, if the shared settings are invalid, or if
  // NATS refuses. Returns UNAVAILABLE if NATS does not answer: the settings may then be shared, unless the error's
  // reason is NOTHING_WRITTEN.
  virtual absl::StatusOr<bool> Claim(const SharedSettings& settings) = 0;

  // Removes the settings shared under this name. Servers that have the collection keep it. Returns OK if there are no
  // such settings; UNAVAILABLE if NATS does not answer; FAILED_PRECONDITION if NATS refuses. Blocks like Claim.
  virtual absl::Status Remove(const std::string& name) = 0;

  // Returns whether this server may create the collection: settings are shared under this name, as far as this server
  // has read them, and no client has unloaded the collection since (NoteUnloaded). Does not block.
  virtual bool MayCreate(const std::string& name) const = 0;

  // Returns whether this server has read the settings at least once, all of them were valid, and none are shared under
  // this name, as far as it has read them. Does not block.
  virtual bool IsUnused(const std::string& name) const = 0;

  // Notes that a client has unloaded the collection from this server. The server then does not create the collection
  // again until its settings are shared anew or the server restarts. Does not block.
  virtual void NoteUnloaded(const std::string& name) = 0;
};

}  // namespace maxsim::store
