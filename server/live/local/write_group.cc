#include "server/live/local/write_group.h"

#include <utility>

namespace maxsim::live {
namespace {

using collection::LogRecord;
using store::Write;
using Outcome = store::WriteResult::Outcome;

}  // namespace

LogRecord RecordOf(const Write& write) {
  LogRecord record;
  record.kind = write.kind;
  record.string_id = write.string_id;
  record.int_id = write.int_id;
  record.version = write.version;
  if (write.kind != LogRecord::Kind::kUpsert) return record;
  record.num_tokens = write.num_tokens;
  record.scale = write.scale;
  record.rows = {reinterpret_cast<const char*>(write.rows.data()), write.rows.size()};
  record.payload = write.payload;
  return record;
}

WriteGroup::WriteGroup(collection::IdType id_type, uint64_t last_sequence, Known known, Numbering numbering)
    : id_type_(id_type), known_(std::move(known)), numbering_(numbering), last_sequence_(last_sequence) {}

std::string_view WriteGroup::KeyOf(const Write& write) const {
  if (id_type_ == collection::IdType::kString) return write.string_id;
  return {reinterpret_cast<const char*>(&write.int_id), sizeof(write.int_id)};
}

const WriteGroup::State* WriteGroup::Find(std::string_view key) const {
  if (const auto found = call_states_.find(key); found != call_states_.end()) return &found->second;
  if (const auto found = states_.find(key); found != states_.end()) return &found->second;
  return nullptr;
}

absl::StatusOr<bool> WriteGroup::IsStale(const Write& write, const LogRecord& record, const State* state) const {
  if (write.version == 0) return false;
  if (state != nullptr) {
    const bool forgotten =
        !state->exists && state->deleted_at < collection::ForgottenBelow(call_deleted_bytes_, known_.remembered_bytes);
    return !forgotten && state->version >= write.version;
  }
  const absl::StatusOr<uint64_t> version = known_.version_of(record, call_deleted_bytes_);
  if (!version.ok()) return version.status();
  return *version >= write.version;
}

void WriteGroup::Skip(collection::SkipReason reason, Decision& decision) {
  if (numbering_ != Numbering::kOfAll) return;
  LogRecord& record = decision.records.emplace_back();
  record.kind = LogRecord::Kind::kSkipped;
  record.sequence = ++call_last_sequence_;
  record.skip_reason = reason;
}

absl::StatusOr<WriteGroup::Decision> WriteGroup::Decide(absl::Span<const Write> writes) {
  call_states_.clear();
  call_last_sequence_ = last_sequence_;
  call_deleted_bytes_ = deleted_bytes_;
  Decision decision;
  decision.records.reserve(writes.size());
  decision.results.reserve(writes.size());
  for (const Write& write : writes) {
    if (write.kind == LogRecord::Kind::kSkipped) {
      Skip(write.skip_reason, decision);
      decision.results.push_back({.outcome = Outcome::kApplied, .sequence = call_last_sequence_});
      continue;
    }
    LogRecord record = RecordOf(write);
    const std::string_view key = KeyOf(write);
    const State* const state = Find(key);
    const absl::StatusOr<bool> stale = IsStale(write, record, state);
    if (!stale.ok()) {
      Drop();
      return stale.status();
    }
    if (*stale) {
      Skip(collection::SkipReason::kStale, decision);
      decision.results.push_back({.outcome = Outcome::kStale, .sequence = 0});
      continue;
    }
    const bool is_delete = write.kind == LogRecord::Kind::kDelete;
    const bool missing = is_delete && !(state != nullptr ? state->exists : known_.holds(record));
    if (missing && write.version == 0) {
      Skip(collection::SkipReason::kNotFound, decision);
      decision.results.push_back({.outcome = Outcome::kNotFound, .sequence = 0});
      continue;
    }
    record.sequence = ++call_last_sequence_;
    call_deleted_bytes_ += collection::DeletedBytes(record, id_type_);
    call_states_[key] = {.exists = !is_delete, .version = write.version, .deleted_at = call_deleted_bytes_};
    decision.records.push_back(record);
    decision.results.push_back(
        {.outcome = missing ? Outcome::kNotFound : Outcome::kApplied, .sequence = record.sequence});
  }
  return decision;
}

void WriteGroup::Keep() {
  for (const auto& [key, state] : call_states_) states_[key] = state;
  call_states_.clear();
  last_sequence_ = call_last_sequence_;
  deleted_bytes_ = call_deleted_bytes_;
}

void WriteGroup::Drop() {
  call_states_.clear();
  call_last_sequence_ = last_sequence_;
  call_deleted_bytes_ = deleted_bytes_;
}

}  // namespace maxsim::live
