// Makes LiveCollection serve a new generation.
#include <string>
#include <utility>

#include "base/monotonic_clock.h"
#include "base/output_file.h"
#include "base/text.h"
#include "server/live/local/live_collection_impl.h"
#include "server/observability/log_event.h"

namespace maxsim::live {
namespace {

// If at most this many records are left to apply, writes are paused while these are applied. This takes some
// milliseconds.
constexpr uint64_t kFewRecords = 256;
// The maximum number of rounds of reading the log until at most kFewRecords are left. It is needed because writes may
// arrive faster than the log is read.
constexpr int kMaxRounds = 8;

}  // namespace

absl::Status LiveCollection::CheckFollowsLog(const collection::Manifest& manifest) const {
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  if (log == nullptr) return Unloading();
  const std::string generation = Cat(request_.path, ": generation ", manifest.generation);
  const collection::LogFormat format = collection::LogFormat::Of(manifest);
  if (format != format_) {
    return absl::FailedPreconditionError(Cat(generation, " has ", collection::Describe(format), ", but its log has ",
                                             collection::Describe(format_),
                                             ": a live collection keeps them; build another collection, in a folder of "
                                             "its own"));
  }
  if (manifest.fields != request_.manifest.fields) {
    return absl::FailedPreconditionError(
        Cat(generation, " has the fields ", collection::DescribeFields(manifest.fields), ", but its log has ",
            collection::DescribeFields(request_.manifest.fields), ": a live collection keeps them"));
  }
  if (manifest.partition != request_.manifest.partition) {
    return absl::FailedPreconditionError(Cat(generation, " has ", collection::DescribeSlots(manifest.slots()),
                                             ", but its log has ", collection::DescribeSlots(request_.manifest.slots()),
                                             ": a live collection keeps them"));
  }
  const uint64_t last = log->last_sequence();
  if (!manifest.log_sequence.has_value()) {
    if (last == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(Cat(generation, " does not say which writes its shards hold, but its log has ",
                                             last, " of them; build it with --log-sequence"));
  }
  if (*manifest.log_sequence > last) {
    return absl::FailedPreconditionError(Cat(generation, " holds the writes up to sequence ", *manifest.log_sequence,
                                             ", but the log's last one is ", last,
                                             ": the log belongs to another collection"));
  }
  if (*manifest.log_sequence < log->first_sequence()) {
    return absl::DataLossError(Cat(generation, " holds the writes up to sequence ", *manifest.log_sequence,
                                   ", but the log has dropped those up to ", log->first_sequence()));
  }
  return absl::OkStatus();
}

absl::StatusOr<collection::Tombstones> LiveCollection::TombstonesOf(const collection::Manifest& manifest) const {
  if (absl::Status status = CheckFollowsLog(manifest); !status.ok()) return status;
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  if (log == nullptr) return Unloading();
  return log->TombstonesOf(manifest);
}

// Publishes log_sequence 0 in the manifest before the log gets its first write. Otherwise the manifest would look like
// that of a generation that was built without the log.
absl::Status LiveCollection::NameLogSequence(const collection::Manifest& manifest) {
  if (manifest.log_sequence.has_value()) return absl::OkStatus();
  absl::StatusOr<FolderLock> lock = FolderLock::Acquire(request_.path);
  if (!lock.ok()) return Prefix("the manifest must name its log_sequence before the first write: ", lock.status());
  absl::StatusOr<collection::Manifest> published = collection::ReadManifest(request_.path);
  if (!published.ok()) return published.status();
  if (published->log_sequence.has_value()) return absl::OkStatus();
  published->log_sequence = 0;
  absl::Status synchronised;
  if (absl::Status status = collection::PublishManifest(*published, request_.path, &synchronised); !status.ok()) {
    return status;
  }
  return synchronised;
}

// Makes a writer and applies the log to it, except for the last few records. Writes to the collection continue in the
// meantime.
absl::StatusOr<std::unique_ptr<ChangesWriter>> LiveCollection::FollowLog(
    const std::shared_ptr<const store::Generation>& generation, const StopSignal* stop) {
  auto writer =
      std::make_unique<ChangesWriter>(generation, IsReplicated(*generation, request_.replication), &allocator_);
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  for (int round = 0; round < kMaxRounds; ++round) {
    uint64_t through = 0;
    {
      const WriterPause pause(this);
      through = log->last_sequence();
      if (writer_.changes() != nullptr) {
        // After a failed write the segments may lack records that the log has. TakeOver applies these records while
        // writes are paused.
        through = std::min(through, writer_.changes()->sequence());
        writer->ShareSegments(writer_.changes()->segments());
      }
    }
    if (through <= writer->sequence() + kFewRecords) break;
    if (absl::Status status = writer->CatchUp(*log, through, stop); !status.ok()) return status;
  }
  return writer;
}

absl::Status LiveCollection::TakeOver(std::unique_ptr<ChangesWriter> writer, Publish publish, const StopSignal* stop) {
  LiveWriter::Served before;  // freed after the pause
  const std::shared_ptr<collection::CollectionLog> log = this->log();
  if (log == nullptr) return Unloading();
  const WriterPause pause(this);
  if (writer_.changes() != nullptr) writer->ShareSegments(writer_.changes()->segments());
  if (absl::Status status = writer->CatchUp(*log, log->last_sequence(), stop); !status.ok()) return status;
  const auto holds = [&](const collection::LogRecord& record) { return writer->changes().Holds(record); };
  if (absl::Status status = log->UpgradeVersions(holds, stop); !status.ok()) return status;
  {
    const MutexLock lock(&mutex_);
    served_generation_ = writer->generation().manifest().generation;
  }
  before = writer_.Serve({std::move(writer), std::move(publish)});
  return absl::OkStatus();
}

absl::Status LiveCollection::Serve(std::shared_ptr<const store::Generation> generation, Publish publish,
                                   const StopSignal* stop) {
  const absl::Time begin = MonotonicNow();
  const StopSignal either(&stop_, stop);
  const collection::Manifest& manifest = generation->manifest();
  if (absl::Status status = CheckFollowsLog(manifest); !status.ok()) return status;
  if (absl::Status status = NameLogSequence(manifest); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<ChangesWriter>> writer = FollowLog(generation, &either);
  if (!writer.ok()) return writer.status();
  if (absl::Status status = TakeOver(*std::move(writer), std::move(publish), &either); !status.ok()) return status;
  const store::LiveState now = state();
  log::Write(spdlog::level::info, "live_served",
             {{"name", request_.name},
              {"generation", manifest.generation},
              {"log_sequence", manifest.log_sequence.value_or(0)},
              {"sequence", now.sequence},
              {"segments", now.num_segments},
              {"seconds", absl::ToDoubleSeconds(MonotonicNow() - begin)}});
  compactor_->RequestTruncation();
  return absl::OkStatus();
}

}  // namespace maxsim::live
