#include "tools/maxsimctl/backup/read_parts.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/guard.h"
#include "base/mutex.h"
#include "base/text.h"
#include "client/slot_message.h"
#include "collection/slots.h"
#include "tools/backup/write_backup.h"

namespace maxsim::ctl {
namespace {

constexpr size_t kMaxThreads = 16;

// Two servers may report creation times of the same stream that differ by this much (MayBeSame in collection_log.h).
constexpr uint64_t kCreationToleranceNs = 1'000'000'000;

// Writes the snapshot of one server to the store, message by message. Not thread-safe.
class PartReader {
 public:
  PartReader(backup::ObjectStore& store, const backup::BackupManifest& manifest, size_t part,
             const std::string& address, const std::atomic<bool>& has_failed)
      : store_(store), id_(manifest.id), collection_(manifest.collection), part_idx_(part), has_failed_(has_failed) {
    part_.server = address;
  }

  absl::Status Take(const v1::ReadSnapshotResponse& message) {
    if (has_failed_) return absl::CancelledError("another server's snapshot has failed");
    if (writer_ == nullptr) return Begin(message);
    switch (message.part_case()) {
      case v1::ReadSnapshotResponse::kFile:
        return writer_->BeginFile(message.file().path(), message.file().bytes(), message.file().xxh3());
      case v1::ReadSnapshotResponse::kData:
        return writer_->TakeData(message.data());
      default:
        return absl::InternalError("a message of the snapshot has neither a file nor data");
    }
  }

  absl::StatusOr<backup::BackupPart> End() {
    if (writer_ == nullptr) return absl::InternalError("the snapshot has no message");
    absl::StatusOr<std::vector<backup::BackupFile>> files = writer_->End();
    if (!files.ok()) return files.status();
    part_.files = *std::move(files);
    return std::move(part_);
  }

  const std::optional<collection::LogStream>& stream() const { return stream_; }

 private:
  absl::Status Begin(const v1::ReadSnapshotResponse& message) {
    if (!message.has_begin()) return absl::InternalError("the snapshot does not begin with a description");
    const v1::SnapshotBegin& begin = message.begin();
    if (begin.collection().name() != collection_) {
      return absl::InternalError(
          Cat("the snapshot is of collection ", Quote(begin.collection().name()), ", not of ", collection_));
    }
    if (begin.sequence() > static_cast<uint64_t>(collection::kMaxLogSequence)) {
      return absl::InternalError(
          Cat("the snapshot has sequence ", begin.sequence(), ", more than the limit ", collection::kMaxLogSequence));
    }
    const absl::StatusOr<collection::SlotRange> slots = client::SlotsOfSnapshot(begin.collection());
    if (!slots.ok()) return slots.status();
    part_.slots = *slots;
    if (begin.has_stream()) {
      stream_ = collection::LogStream{.name = begin.stream().name(), .created_ns = begin.stream().created_unix_ns()};
    }
    part_.sequence = begin.sequence();
    part_.num_documents = begin.collection().num_documents();
    writer_ = std::make_unique<backup::PartWriter>(store_, id_, part_idx_, begin.total_bytes());
    return absl::OkStatus();
  }

  backup::ObjectStore& store_;
  const std::string id_;
  const std::string collection_;
  const size_t part_idx_;
  const std::atomic<bool>& has_failed_;
  backup::BackupPart part_;
  std::optional<collection::LogStream> stream_;
  std::unique_ptr<backup::PartWriter> writer_;  // set once the first message has come
};

struct ReadPart {
  backup::BackupPart part;
  std::optional<collection::LogStream> stream;
};

absl::StatusOr<ReadPart> ReadOne(const SnapshotServer& server, PartReader reader) {
  absl::Status status = server.read([&](const v1::ReadSnapshotResponse& message) { return reader.Take(message); });
  if (!status.ok()) return status;
  absl::StatusOr<backup::BackupPart> part = reader.End();
  if (!part.ok()) return part.status();
  return ReadPart{.part = *std::move(part), .stream = reader.stream()};
}

bool AreAlike(const collection::LogStream& a, const collection::LogStream& b) {
  const uint64_t difference = std::max(a.created_ns, b.created_ns) - std::min(a.created_ns, b.created_ns);
  return a.name == b.name && difference <= kCreationToleranceNs;
}

// Adds a part to the manifest. `stream_server` is the address of the first server that reported a stream, or "" if none
// did. Returns FAILED_PRECONDITION if the part's stream is not that of the manifest.
absl::Status AddPart(ReadPart read, std::string& stream_server, backup::BackupManifest& manifest) {
  if (read.stream.has_value() && manifest.stream.has_value() && !AreAlike(*read.stream, *manifest.stream)) {
    return absl::FailedPreconditionError(Cat(read.part.server, ": follows stream ", Quote(read.stream->name), ", but ",
                                             stream_server, " follows another one of name ",
                                             Quote(manifest.stream->name), "; one backup is of one stream"));
  }
  if (!manifest.stream.has_value() && read.stream.has_value()) {
    manifest.stream = std::move(read.stream);
    stream_server = read.part.server;
  }
  manifest.parts.push_back(std::move(read.part));
  return absl::OkStatus();
}

// Checks the limits of the manifest before hours are spent on the parts.
absl::Status CheckServers(const std::vector<SnapshotServer>& servers) {
  if (servers.size() > backup::kMaxBackupParts) {
    return absl::FailedPreconditionError(Cat("the collection is to be read from ", servers.size(),
                                             " servers, more than the limit of a backup, ", backup::kMaxBackupParts));
  }
  for (const SnapshotServer& server : servers) {
    if (server.address.size() <= backup::kMaxManifestTextBytes) continue;
    return absl::FailedPreconditionError(Cat(server.address, ": the address has ", server.address.size(),
                                             " bytes, more than the limit of a backup, ",
                                             backup::kMaxManifestTextBytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadParts(const std::vector<SnapshotServer>& servers, backup::ObjectStore& store,
                       backup::BackupManifest& manifest) {
  if (absl::Status status = CheckServers(servers); !status.ok()) return status;
  std::atomic<size_t> next{0};
  std::atomic<bool> has_failed{false};
  std::vector<absl::StatusOr<ReadPart>> parts(servers.size(), absl::CancelledError("was not read"));
  Mutex mutex;
  absl::Status first_error;
  const auto work = [&] {
    for (size_t i = next++; i < servers.size() && !has_failed; i = next++) {
      parts[i] =
          Guarded([&] { return ReadOne(servers[i], PartReader(store, manifest, i, servers[i].address, has_failed)); });
      if (parts[i].ok()) continue;
      const MutexLock lock(&mutex);
      if (!has_failed.exchange(true)) first_error = Prefix(Cat(servers[i].address, ": "), parts[i].status());
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min(servers.size(), kMaxThreads); ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  if (has_failed) return first_error;
  std::string stream_server;
  for (absl::StatusOr<ReadPart>& part : parts) {
    if (absl::Status status = AddPart(*std::move(part), stream_server, manifest); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace maxsim::ctl
