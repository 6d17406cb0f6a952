// A fake live collection. It records the writes that it receives, and answers as the test says. It does not apply these
// writes to the collection that it serves.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/collection/changes.h"
#include "server/store/live_documents.h"

namespace maxsim::test {

class FakeLiveDocuments final : public store::LiveDocuments {
 public:
  // Receives the writes of one Submit call. If `on_submit` is not set, every write is answered as applied, with the
  // next sequence.
  using OnSubmit = std::function<void(std::vector<store::Write> writes, Done done)>;

  void Submit(std::vector<store::Write> writes, const store::WriteCaller& caller, Done done) override {
    last_caller = caller;
    if (on_submit != nullptr) return on_submit(std::move(writes), std::move(done));
    store::WriteResults results;
    for (store::Write& write : writes) {
      results.results.push_back({.outcome = store::WriteResult::Outcome::kApplied, .sequence = ++sequence});
      written.push_back(std::move(write));
    }
    results.sequence = sequence;
    done(std::move(results));
  }
  absl::Status Compact(const StopSignal*, bool* changed) override {
    *changed = compact_changes;
    return compact_status;
  }
  absl::StatusOr<uint64_t> SnapshotTo(const std::string& folder, const StopSignal*) override {
    snapshots.push_back(folder);
    if (on_snapshot != nullptr) on_snapshot(folder);
    return sequence;
  }
  store::LiveState state() const override { return live_state; }
  absl::StatusOr<collection::SlotLayout> SetLayout(const std::vector<collection::SlotOwner>& owners,
                                                   uint64_t expected_revision) override {
    if (!has_stream) return LiveDocuments::SetLayout(owners, expected_revision);
    live_state.layout = std::make_shared<const collection::SlotLayout>(
        collection::SlotLayout{.revision = expected_revision + 1, .owners = owners});
    return *live_state.layout;
  }
  absl::StatusOr<uint64_t> VersionOf(std::string_view id) const override {
    if (on_version != nullptr) on_version();
    const auto found = versions.find(std::string(id));
    return found == versions.end() ? 0 : found->second;
  }
  absl::StatusOr<uint64_t> VersionOf(int64_t id) const override { return VersionOf(std::to_string(id)); }
  absl::Status ReadBehind(uint64_t, const collection::CollectionLog::Visitor& visit) const override {
    if (num_reads_behind++ >= max_reads_behind) return absl::OkStatus();
    for (const std::string& id : written_behind) {
      collection::LogRecord record;
      record.string_id = id;
      if (absl::Status status = visit(record); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<uint64_t> VersionOfWrite(uint64_t) const override { return 0; }
  absl::StatusOr<collection::Tombstones> TombstonesOf(const collection::Manifest&) const override {
    return collection::Tombstones();
  }
  absl::Status Serve(std::shared_ptr<const store::Generation> generation, Publish publish, const StopSignal*) override {
    changes_ = std::make_shared<store::Changes>(std::move(generation));
    publish_ = std::move(publish);
    publish_(changes_->Snapshot(sequence));
    return absl::OkStatus();
  }
  void Stop() override {
    if (on_stop != nullptr) std::exchange(on_stop, nullptr)();
  }

  // Deletes a document from the collection that is served, as if another client had written the deletion.
  void DeleteNow(std::string_view id) {
    changes_->Delete({.kind = collection::LogRecord::Kind::kDelete, .sequence = ++sequence, .string_id = id});
    publish_(changes_->Snapshot(sequence));
  }

  OnSubmit on_submit;
  std::function<void()> on_stop;                               // called by the first Stop, if it is set
  std::function<void(const std::string& folder)> on_snapshot;  // called by SnapshotTo, if it is set
  std::function<void()> on_version;                            // called by VersionOf, if it is set
  std::vector<store::Write> written;
  store::WriteCaller last_caller;
  uint64_t sequence = 7;  // the last write, which the served collection holds
  std::map<std::string, uint64_t> versions;
  std::vector<std::string> written_behind;  // ids that ReadBehind returns: applied writes not yet visible to requests
  int max_reads_behind = 1'000'000;         // number of ReadBehind calls that return written_behind; later ones return
                                            // nothing
  mutable std::atomic<int> num_reads_behind{0};
  store::LiveState live_state;
  bool has_stream = true;  // the collection can have a layout
  absl::Status compact_status;
  bool compact_changes = true;
  std::vector<std::string> snapshots;

 private:
  std::shared_ptr<store::Changes> changes_;
  Publish publish_;
};

}  // namespace maxsim::test
