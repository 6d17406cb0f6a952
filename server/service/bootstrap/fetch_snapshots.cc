#include "server/service/bootstrap/fetch_snapshots.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "base/file.h"
#include "base/guard.h"
#include "base/mutex.h"
#include "base/start_thread.h"
#include "base/text.h"
#include "base/thread_name.h"
#include "client/error_details.h"
#include "client/slot_message.h"
#include "collection/manifest.h"
#include "server/service/bootstrap/snapshot_messages.h"
#include "server/service/bootstrap/snapshot_receiver.h"

namespace maxsim::service {
namespace {

using collection::SlotRange;

// A source whose first message has arrived.
struct FetchSource {
  std::string address;
  std::unique_ptr<IncomingSnapshot> snapshot = {};
  uint64_t total_bytes = 0;
  uint64_t sequence = 0;
  SlotRange slots = {};
  std::string folder = {};
};

// Returns `status` with the source's address in its message. Codes that blame a client are changed, because here this
// server is the client, and not the caller of the bootstrap.
absl::Status OfSource(const std::string& address, const absl::Status& status) {
  const std::string message = Cat("source ", address, ": ", std::string(status.message()));
  switch (status.code()) {
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
      return absl::FailedPreconditionError(Cat(message, " (cluster.token_file names this server's token)"));
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInvalidArgument:
      return absl::FailedPreconditionError(message);
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return absl::UnavailableError(message);
    default:
      return WithMessage(status, message);
  }
}

// Checks the first message of a source, and fills the source.
absl::Status ReadBeginning(const v1::ReadSnapshotResponse& message, const std::string& name, FetchSource& source) {
  if (!message.has_begin()) return absl::InternalError("the snapshot does not begin with a description");
  const v1::SnapshotBegin& begin = message.begin();
  if (begin.format_version() > kSnapshotFormatVersion) {
    return absl::FailedPreconditionError(Cat("the snapshot has format version ", begin.format_version(),
                                             "; this version reads up to ", kSnapshotFormatVersion,
                                             ": update this server to the version of the source"));
  }
  const v1::CollectionInfo& info = begin.collection();
  if (info.name() != name) {
    return absl::InternalError(Cat("the snapshot is of collection ", Quote(info.name()), ", not of ", name));
  }
  if (begin.sequence() > static_cast<uint64_t>(collection::kMaxLogSequence)) {
    return absl::InternalError(
        Cat("the snapshot has sequence ", begin.sequence(), ", more than the limit ", collection::kMaxLogSequence));
  }
  if (!info.has_live() || info.live().log() != "nats") {
    return absl::FailedPreconditionError(
        Cat("collection ", name, " is not live with live.log nats: no stream orders its writes"));
  }
  const absl::StatusOr<SlotRange> slots = client::SlotsOfSnapshot(info);
  if (!slots.ok()) return slots.status();
  source.slots = *slots;
  source.total_bytes = begin.total_bytes();
  source.sequence = begin.sequence();
  return absl::OkStatus();
}

// Opens the source: reads the first message of its snapshot. Needs source.address, and sets all other members except
// the folder.
absl::Status OpenSource(const FetchRequest& request, const OpenSnapshot& open, const tracing::SpanParent& span,
                        const StopSignal* stop, FetchSource& source) {
  absl::StatusOr<std::unique_ptr<IncomingSnapshot>> opened = open(source.address, request.collection, span, stop);
  if (!opened.ok()) return opened.status();
  source.snapshot = *std::move(opened);
  v1::ReadSnapshotResponse first;
  const absl::StatusOr<bool> has_first = source.snapshot->Next(first);
  if (!has_first.ok()) return has_first.status();
  if (!*has_first) return absl::InternalError("the snapshot has no message");
  return ReadBeginning(first, request.collection, source);
}

// Chooses as few sources as possible that together have all wanted slots, and drops the others. From the first slot on,
// always takes the source that has the next slot and reaches furthest.
absl::StatusOr<std::vector<FetchSource>> Choose(std::vector<FetchSource> sources, const SlotRange& wanted) {
  std::vector<FetchSource> chosen;
  int32_t next = wanted.first;
  while (next < wanted.end) {
    const auto best = std::max_element(sources.begin(), sources.end(), [&](const FetchSource& a, const FetchSource& b) {
      return (a.slots.contains(next) ? a.slots.end : 0) < (b.slots.contains(next) ? b.slots.end : 0);
    });
    if (best == sources.end() || !best->slots.contains(next)) {
      return client::InvalidField("sources",
                                  Cat("none has slot ", next, " of the wanted ", collection::FormatSlotRange(wanted)));
    }
    next = best->slots.end;
    chosen.push_back(std::move(*best));
    sources.erase(best);
  }
  return chosen;
}

absl::Status CheckDisk(const std::vector<FetchSource>& sources, const std::string& folder) {
  const absl::StatusOr<int64_t> free_bytes = FreeDiskBytes(folder);
  if (!free_bytes.ok()) return free_bytes.status();
  const auto free = static_cast<uint64_t>(std::max<int64_t>(*free_bytes, 0));
  uint64_t left = free / kFetchDiskCopies;
  for (const FetchSource& source : sources) {
    if (source.total_bytes > left) {
      return absl::ResourceExhaustedError(Cat("the snapshots do not fit on the disk of ", folder, ": ", free,
                                              " bytes are free, which must be ", kFetchDiskCopies,
                                              " times as many as the snapshots have; that of ", source.address,
                                              " alone has ", source.total_bytes));
    }
    left -= source.total_bytes;
  }
  return absl::OkStatus();
}

absl::Status Receive(FetchSource& source, const StopSignal& stop, uint64_t& num_bytes) {
  SnapshotReceiver receiver(source.folder, source.total_bytes);
  v1::ReadSnapshotResponse message;
  while (true) {
    const absl::StatusOr<bool> has_more = source.snapshot->Next(message);
    if (!has_more.ok()) return has_more.status();
    if (absl::Status status = stop.status(); !status.ok()) return status;
    absl::Status status = *has_more ? receiver.Take(message) : receiver.End();
    num_bytes = receiver.num_bytes();
    if (!status.ok() || !*has_more) return status;
  }
}

// Carries out a step for all sources at the same time. Returns the first error, which names the source. This error also
// stops `any_failed`, so that the steps for the other sources end soon. If the caller has stopped `any_failed` before,
// the result may be OK although steps did not complete.
absl::Status ForAll(std::vector<FetchSource>& sources, StopSignal& any_failed,
                    const std::function<absl::Status(FetchSource&)>& step) {
  Mutex mutex;
  absl::Status first;
  const auto run = [&](FetchSource& source) {
    // Nothing else in the thread may throw: that would end the process.
    const absl::Status status = Guarded([&] {
      const absl::Status error = Guarded([&] { return step(source); });
      return error.ok() ? error : OfSource(source.address, error);
    });
    const MutexLock lock(&mutex);
    if (status.ok() || any_failed.stopped()) return;
    first = status;
    any_failed.Request(absl::StatusCode::kCancelled);
  };
  absl::Status started;
  {
    bool has_started_all = false;
    std::vector<std::thread> threads(sources.size());
    // Join the threads even without memory: a running thread must not be destroyed.
    const absl::Cleanup join = [&] {
      if (!has_started_all) any_failed.Request(absl::StatusCode::kCancelled);
      for (std::thread& thread : threads) {
        if (thread.joinable()) thread.join();
      }
    };
    for (size_t idx = 0; idx < sources.size() && started.ok(); ++idx) {
      started = StartThread(
          "snapshot",
          [&, idx] {
            NameThisThread("snapshot");
            run(sources[idx]);
          },
          &threads[idx]);
    }
    has_started_all = started.ok();
  }
  if (!started.ok()) return started;
  const MutexLock lock(&mutex);
  return first;
}

}  // namespace

absl::StatusOr<FetchedSnapshots> FetchSnapshots(const FetchRequest& request, const OpenSnapshot& open,
                                                const tracing::SpanParent& span, const StopSignal* stop) {
  // The signal must outlive the sources, whose calls watch it.
  StopSignal any_failed(stop, nullptr);
  std::vector<FetchSource> sources;
  for (const std::string& address : request.sources) sources.push_back({.address = address});
  absl::Status status = ForAll(
      sources, any_failed, [&](FetchSource& source) { return OpenSource(request, open, span, &any_failed, source); });
  if (absl::Status stopped = StopStatus(stop); !stopped.ok()) return stopped;
  if (!status.ok()) return status;
  absl::StatusOr<std::vector<FetchSource>> chosen = Choose(std::move(sources), request.slots);
  if (!chosen.ok()) return chosen.status();
  if (status = CheckDisk(*chosen, request.folder); !status.ok()) return status;
  FetchedSnapshots fetched;
  for (FetchSource& source : *chosen) {
    source.folder = JoinPath(request.folder, Cat("source-", fetched.folders.size()));
    std::error_code error;
    if (!std::filesystem::create_directory(source.folder, error)) {
      return ErrnoStatus(error.value(), "cannot create folder", source.folder);
    }
    fetched.folders.push_back(source.folder);
    fetched.last_sequence = std::max(fetched.last_sequence, source.sequence);
  }
  std::atomic<uint64_t> num_bytes{0};
  status = ForAll(*chosen, any_failed, [&](FetchSource& source) {
    uint64_t received = 0;
    absl::Status end = Receive(source, any_failed, received);
    num_bytes += received;
    return end;
  });
  if (absl::Status stopped = StopStatus(stop); !stopped.ok()) return stopped;
  if (!status.ok()) return status;
  fetched.num_bytes = num_bytes;
  return fetched;
}

}  // namespace maxsim::service
