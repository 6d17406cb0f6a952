// Finds the ids of the documents that records in the log write or delete, and each document's last write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/log/collection_log.h"

namespace maxsim::collection {

// An upsert (a write that adds or replaces a document) that no later write in the log replaces or deletes.
struct LiveUpsert {
  uint64_t sequence = 0;
  int32_t num_tokens = 0;
  int32_t payload_bytes = 0;
};

class ChangedIds {
 public:
  // Reads the records with sequences `after` + 1 .. `through`. Takes memory in proportion to the number of their ids.
  static absl::StatusOr<ChangedIds> Read(const CollectionLog& log, uint64_t after, uint64_t through,
                                         const StopSignal* stop);

  bool empty() const { return strings_.empty() && ints_.empty(); }
  bool Contains(std::string_view id) const { return strings_.find(id) != strings_.end(); }
  bool Contains(int64_t id) const { return ints_.find(id) != ints_.end(); }

  const std::vector<LiveUpsert>& upserts() const { return upserts_; }  // in the order of their sequences

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view id) const { return std::hash<std::string_view>()(id); }
  };
  static constexpr size_t kDeleted = SIZE_MAX;

  void Take(const LogRecord& record, size_t* place);

  // For each id, the index of its last write in upserts_, or kDeleted. The indices are valid only while Read runs.
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> strings_;
  std::unordered_map<int64_t, size_t> ints_;
  std::vector<LiveUpsert> upserts_;
};

}  // namespace maxsim::collection
