// Folders with files as snapshots have them, and sources that send such folders.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/stop.h"
#include "maxsim/v1/admin.pb.h"
#include "server/service/bootstrap/snapshot_files.h"
#include "server/service/bootstrap/snapshot_source.h"
#include "tests/support/collection/corpus.h"

namespace maxsim::service {

// The contents of files by path.
using Files = std::map<std::string, std::string>;

inline void WriteFiles(const std::string& folder, const Files& files) {
  for (const auto& [path, bytes] : files) {
    const std::filesystem::path whole = std::filesystem::path(folder) / path;
    std::filesystem::create_directories(whole.parent_path());
    test::WriteFile(whole.string(), bytes);
  }
}

inline Files ReadFiles(const std::string& folder) {
  Files files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) continue;
    files[entry.path().lexically_relative(folder).generic_string()] = test::ReadFile(entry.path().string());
  }
  return files;
}

// Returns `count` bytes that differ from block to block.
inline std::string Bytes(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 31 + i / 977);
  return bytes;
}

// Returns the files of a small snapshot.
inline Files SmallFiles() {
  return {{"collection.json", "{}"},
          {"docs-1.safetensors", Bytes(3'000'000)},
          {"log/db/000004.sst", Bytes(70)},
          {"log/db/CURRENT", "MANIFEST-000005\n"},
          {"log/empty", ""}};
}

// Returns the messages with which a server sends the files of a folder. The first message is `begin`, with total_bytes
// set.
inline std::vector<v1::ReadSnapshotResponse> MessagesOf(const std::string& folder, v1::SnapshotBegin begin = {}) {
  const auto files = ListSnapshotFiles(folder);
  EXPECT_TRUE(files.ok()) << files.status();
  uint64_t num_bytes = 0;
  for (const SnapshotFile& file : *files) num_bytes += file.num_bytes;
  begin.set_total_bytes(num_bytes);
  std::vector<v1::ReadSnapshotResponse> messages(1);
  *messages[0].mutable_begin() = std::move(begin);
  const auto keep = [&](const v1::ReadSnapshotResponse& message) {
    messages.push_back(message);
    return absl::OkStatus();
  };
  const absl::Status sent = SendSnapshotFiles(folder, *files, keep, nullptr);
  EXPECT_TRUE(sent.ok()) << sent;
  return messages;
}

// Sends messages, and then ends with a status.
class ScriptedSnapshot final : public IncomingSnapshot {
 public:
  struct Script {
    std::vector<v1::ReadSnapshotResponse> messages = {};
    absl::Status end = {};
    // Before this message (an index), the snapshot waits until the signal is stopped.
    size_t blocks_before = static_cast<size_t>(-1);
    std::function<void(size_t idx)> on_message = nullptr;  // called before each message, if it is set
  };

  ScriptedSnapshot(const Script* script, const StopSignal* stop) : script_(*script), stop_(stop) {}

  absl::StatusOr<bool> Next(v1::ReadSnapshotResponse& message) override {
    while (next_ == script_.blocks_before && !Stopped(stop_)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (Stopped(stop_)) return stop_->status();
    if (script_.on_message != nullptr) script_.on_message(next_);
    if (next_ < script_.messages.size()) {
      message = script_.messages[next_++];
      return true;
    }
    if (!script_.end.ok()) return script_.end;
    return false;
  }

 private:
  const Script& script_;
  const StopSignal* const stop_;
  size_t next_ = 0;
};

// Returns the contents of a snapshot's first message, for a live collection that follows a stream.
inline v1::SnapshotBegin Beginning(const std::string& name, int first_slot = 0, int end_slot = 4096) {
  v1::SnapshotBegin begin;
  begin.set_sequence(7);
  begin.mutable_collection()->set_name(name);
  begin.mutable_collection()->mutable_live()->set_log("nats");
  if (first_slot != 0 || end_slot != 4096) {
    begin.mutable_collection()->mutable_partition()->set_first_slot(static_cast<uint32_t>(first_slot));
    begin.mutable_collection()->mutable_partition()->set_end_slot(static_cast<uint32_t>(end_slot));
  }
  return begin;
}

}  // namespace maxsim::service
