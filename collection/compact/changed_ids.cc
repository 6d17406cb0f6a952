#include "collection/compact/changed_ids.h"

#include <algorithm>

namespace maxsim::collection {

absl::StatusOr<ChangedIds> ChangedIds::Read(const CollectionLog& log, uint64_t after, uint64_t through,
                                            const StopSignal* stop) {
  ChangedIds changed;
  const bool has_strings = log.format().id_type == IdType::kString;
  absl::Status status = log.Read(after, through, [&](const LogRecord& record) {
    if (record.kind == LogRecord::Kind::kSkipped) return StopStatus(stop);
    if (has_strings) {
      changed.Take(record, &changed.strings_.try_emplace(std::string(record.string_id), kDeleted).first->second);
    } else {
      changed.Take(record, &changed.ints_.try_emplace(record.int_id, kDeleted).first->second);
    }
    return StopStatus(stop);
  });
  if (!status.ok()) return status;
  // Removes the upserts that a later record replaced or deleted. This invalidates the indices in the maps, which are
  // not used any more.
  std::vector<LiveUpsert>& upserts = changed.upserts_;
  upserts.erase(std::remove_if(upserts.begin(), upserts.end(), [](const LiveUpsert& it) { return it.sequence == 0; }),
                upserts.end());
  return changed;
}

void ChangedIds::Take(const LogRecord& record, size_t* place) {
  if (*place != kDeleted) upserts_[*place].sequence = 0;
  *place = kDeleted;
  if (record.kind == LogRecord::Kind::kDelete) return;
  *place = upserts_.size();
  upserts_.push_back({record.sequence, record.num_tokens, static_cast<int32_t>(record.payload.size())});
}

}  // namespace maxsim::collection
