// Decides which writes of a group of calls take place: a stale write or the delete of an unknown id does not.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collection/log/log_record.h"
#include "collection/log/version_memory.h"
#include "collection/manifest.h"
#include "server/store/live_documents.h"

namespace maxsim::live {

// Returns the record of an upsert or a delete, without a sequence. The record views the memory of `write`.
collection::LogRecord RecordOf(const store::Write& write);

// Gives the writes their sequences. Tracks the effect of the group's earlier calls on each id, because neither the log
// nor the changes have these calls yet. The writes must not move while the group lives. For one thread.
class WriteGroup {
 public:
  // The group asks the collection through these functions.
  struct Known {
    // Whether the collection has a document with the record's id.
    std::function<bool(const collection::LogRecord&)> holds;
    // Returns the version that the log will have for the id after it got the group's deletes, whose remembered versions
    // take `pending_bytes` (version_memory.h).
    std::function<absl::StatusOr<uint64_t>(const collection::LogRecord&, uint64_t pending_bytes)> version_of;
    uint64_t remembered_bytes = collection::kRememberedBytes;  // the limit of the log
  };
  enum class Numbering {
    kOfThoseThatTakePlace,
    kOfAll,  // for a stream: a write that does not take place gets a record of kind kSkipped
  };
  // The group's first write gets the sequence `last_sequence` + 1.
  WriteGroup(collection::IdType id_type, uint64_t last_sequence, Known known,
             Numbering numbering = Numbering::kOfThoseThatTakePlace);

  // The outcome of one call.
  struct Decision {
    std::vector<collection::LogRecord> records;  // to be written to the log, with consecutive sequences; may be empty
    std::vector<store::WriteResult> results;     // [writes]
  };
  // Decides about the next call. A write with a version takes place unless the id already has the same or a newer
  // version. A delete takes place if the document exists, or if the delete has a version that must be remembered.
  // Returns the errors of version_of.
  absl::StatusOr<Decision> Decide(absl::Span<const store::Write> writes);
  // After Decide, call Keep if the call is written, or Drop if it is refused.
  void Keep();
  void Drop();

  uint64_t last_sequence() const { return last_sequence_; }

 private:
  // The state of an id after the writes so far.
  struct State {
    bool exists = false;
    uint64_t version = 0;
    uint64_t deleted_at = 0;  // if it was deleted: call_deleted_bytes_ right after that delete
  };
  using States = std::unordered_map<std::string_view, State>;  // int64 ids by their bytes

  std::string_view KeyOf(const store::Write& write) const;
  const State* Find(std::string_view key) const;
  // Returns whether the write is stale.
  absl::StatusOr<bool> IsStale(const store::Write& write, const collection::LogRecord& record,
                               const State* state) const;
  // Adds a kSkipped record for a message that changes nothing, if all writes are numbered.
  void Skip(collection::SkipReason reason, Decision& decision);

  const collection::IdType id_type_;
  const Known known_;
  const Numbering numbering_;
  uint64_t last_sequence_;           // of the kept calls
  uint64_t call_last_sequence_ = 0;  // of the call that was decided about
  uint64_t deleted_bytes_ = 0;       // of the records of the kept calls
  uint64_t call_deleted_bytes_ = 0;  // deleted_bytes_ and those of the call that was decided about
  States states_;                    // after the kept calls
  States call_states_;               // changes of the call that was decided about
};

}  // namespace maxsim::live
