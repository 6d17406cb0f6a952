#include "server/store/wanted_generation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/text.h"
#include "collection/generations/kept_generations.h"
#include "server/observability/log_event.h"

namespace maxsim::store {
namespace {

using collection::ServedGeneration;

// Returns the revision of a reload of this server alone. It is later than `last`.
uint64_t OwnRevision(uint64_t last) {
  const auto now = static_cast<uint64_t>(std::max<int64_t>(absl::ToUnixMicros(absl::Now()), 1));  // a revision
  return std::min(std::max(now, last + 1), collection::kMaxReloadRevision);
}

WantedGeneration ChooseAtStart(const FolderState& state, const std::optional<ServedGeneration>& note) {
  if (!note.has_value()) return {.manifest = state.published};
  // If the folder was built anew, another build may have the noted number: the published manifest describes its files.
  const bool is_published = note->manifest.generation == state.published.generation;
  return {.manifest = is_published ? state.published : note->manifest, .revision = note->revision};
}

}  // namespace

absl::StatusOr<WantedGeneration> ChooseWanted(const Folder& folder, const FolderState& state, const LoadKind& kind) {
  if (state.is_live) {
    if (kind.target.generation == 0) return WantedGeneration{.manifest = state.published};
    return absl::OutOfRangeError(Cat("no generation ", kind.target.generation,
                                     " can be chosen: the collection is live, and its server compacts it into "
                                     "generations of its own; to go back, restore a snapshot or a backup"));
  }
  const absl::StatusOr<std::optional<ServedGeneration>> note = collection::ReadServed(folder);
  if (!note.ok()) return note.status();
  if (kind.at_start) return ChooseAtStart(state, *note);
  const ReloadTarget& target = kind.target;
  const uint64_t last = std::max(state.revision, note->has_value() ? (*note)->revision : 0);
  if (target.revision != 0 && target.revision < last) {
    return absl::AbortedError(
        Cat("is ", target.revision, ", but this server has carried out a later reload, with revision ", last));
  }
  WantedGeneration wanted{.manifest = state.published, .revision = target.revision};
  if (target.generation != 0 && target.generation != state.published.generation) {
    absl::StatusOr<collection::Manifest> found = collection::FindGeneration(folder, target.generation);
    if (!found.ok()) return found.status();
    wanted.manifest = *std::move(found);
  }
  if (wanted.revision != 0) return wanted;
  const bool is_known = state.served == wanted.manifest.generation &&
                        (!note->has_value() || (*note)->manifest.generation == state.served);
  const bool has_news = target.generation != 0 || (last != 0 && !is_known);
  wanted.revision = has_news ? OwnRevision(last) : last;
  return wanted;
}

bool MustNote(const LoadKind& kind, const WantedGeneration& wanted, const absl::Status& status) {
  return !kind.at_start && wanted.revision != 0 && (status.ok() || absl::IsResourceExhausted(status));
}

void Note(const std::string& name, const Folder& folder, const WantedGeneration& wanted) {
  const absl::Status status =
      collection::WriteServed({.manifest = wanted.manifest, .revision = wanted.revision}, folder.path());
  if (status.ok()) return;
  log::Write(spdlog::level::warn, "generation_not_noted",
             {{"name", name},
              {"generation", wanted.manifest.generation},
              {"error", status.ToString()},
              {"effect", "the server loads the published generation when it starts"}});
}

int64_t PreviousOf(const Folder& folder, int64_t served) {
  const absl::StatusOr<std::optional<collection::Manifest>> previous = collection::ReadPrevious(folder);
  if (!previous.ok() || !previous->has_value() || (*previous)->generation >= served) return 0;
  return (*previous)->generation;
}

}  // namespace maxsim::store
