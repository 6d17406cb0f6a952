// Keys with small values that several servers share and follow. The NATS implementation is
// server/live/stream/nats_keys.h; the rest of server/live/ only knows this interface.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace maxsim::live {

// The class is thread-safe. Keys consist of A-Z a-z 0-9 - _ = and of dots between other characters. The part of a key
// before the first dot says what the key is for: "layout.docs".
class KeyValueStore {
 public:
  // A key's value and its revision: 1 or more, and larger than those of all earlier changes of any key.
  struct Entry {
    std::string value;
    uint64_t revision = 0;
  };

  // The outcome of Put.
  struct PutResult {
    bool is_stored = false;
    uint64_t revision = 0;  // the key's revision now; 0 if it has no value
  };

  struct Change {
    std::string key;
    std::string value = {};
    uint64_t revision = 0;  // 0: the key has no value any more
  };

  // Follows all keys that begin with `prefix`. Both functions must be set.
  struct Watch {
    std::string prefix;
    // Gets each key that has a value when the store begins to watch, and then each change, in order. If the connection
    // was lost, it gets all keys again, and also those that have lost their values meanwhile. The store also passes all
    // keys again from time to time, so repeated changes must do no harm.
    std::function<void(const Change& change)> on_change;
    // Gets OK whenever on_change has got all keys, and an error after each failed attempt to follow the store. With
    // FAILED_PRECONDITION an operator must do something. If Add cannot start a thread, Add itself calls on_status.
    std::function<void(const absl::Status& status)> on_status;
  };

  // Ends all watches: no function of a watch is called any more.
  virtual ~KeyValueStore() = default;

  // Returns the store's name for operators, such as "bucket maxsim".
  virtual std::string name() const = 0;

  // Adds a watch. There may be any number of them. After the first call, the store connects in the background, and
  // connects again whenever the connection is lost. So Get, Put and Delete return UNAVAILABLE until a watch was added.
  // One thread of the store calls the functions of all watches, one after another. They may block it for moments, and
  // must not call the store.
  virtual void Add(Watch watch) = 0;

  // The following functions block for at most a few times the time limit of a call. They return UNAVAILABLE while there
  // is no connection, and FAILED_PRECONDITION if the server refuses.

  // Returns the value that the store has now, or nullopt.
  virtual absl::StatusOr<std::optional<Entry>> Get(const std::string& key) = 0;

  // Sets the value of a key if its revision is `expected_revision` (0: if it has no value). If several callers put with
  // the same expectation, only one of them stores its value. After UNAVAILABLE the value may be stored, now or later,
  // unless the error's reason is NOTHING_WRITTEN (client/error_details.h).
  virtual absl::StatusOr<PutResult> Put(const std::string& key, std::string_view value, uint64_t expected_revision) = 0;

  // Removes the value of a key. It is no error if it has none.
  virtual absl::Status Delete(const std::string& key) = 0;
};

}  // namespace maxsim::live
