// Decides which writes of calls that are written together take place.
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

// Returns the record of an upsert or a delete, without a sequence; it views the write.
collection::LogRecord RecordOf(const store::Write& write);

// Numbers the writes and tracks what earlier calls of the group did to each id, since neither the log nor the changes
// know that yet. The writes must stay where they are as long as the group lives. For one thread.
class WriteGroup {
 public:
  // Queries to the collection that the group depends on.
  struct Known {
    std::function<bool(const collection::LogRecord&)> holds;  // whether the collection has a document of the id
    // Returns the version that the log will have for the id after deletes of the group that count `pending_bytes`
    // (version_memory.h).
    std::function<absl::StatusOr<uint64_t>(const collection::LogRecord&, uint64_t pending_bytes)> version_of;
    uint64_t remembered_bytes = collection::kRememberedBytes;  // the log's
  };
  enum class Numbering {
    kOfThoseThatTakePlace,
    kOfAll,  // as in a stream: a write that does not take place has a record of kind kSkipped
  };
  // The group's first write gets the sequence `last_sequence` + 1.
  WriteGroup(collection::IdType id_type, uint64_t last_sequence, Known known,
             Numbering numbering = Numbering::kOfThoseThatTakePlace);

  // The outcome of one call.
  struct Decision {
    std::vector<collection::LogRecord> records;  // to be written to the log, of consecutive sequences; may be none
    std::vector<store::WriteResult> results;     // [writes]
  };
  // Decides about the next call. A write with a version takes place if the id has no version that is as new; a delete
  // takes place if there is a document, or if it has a version to be remembered. Errors are those of version_of.
  absl::StatusOr<Decision> Decide(absl::Span<const store::Write> writes);
  // Call exactly one of these next: Keep if the call's writes take place, Drop if none of them does.
  void Keep();
  void Drop();

  uint64_t last_sequence() const { return last_sequence_; }

 private:
  // The state of an id after the writes so far.
  struct State {
    bool exists = false;
    uint64_t version = 0;
    uint64_t deleted_at = 0;  // if it was deleted: the group's deleted bytes just after that delete
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
  uint64_t last_sequence_;           // of the calls that were kept
  uint64_t call_last_sequence_ = 0;  // of the call that was decided about
  uint64_t deleted_bytes_ = 0;       // of the records of the calls that were kept
  uint64_t call_deleted_bytes_ = 0;  // with those of the call that was decided about
  States states_;                    // after the calls that were kept
  States call_states_;               // beside these, after the call that was decided about
};

}  // namespace maxsim::live
