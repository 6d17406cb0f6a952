// Decides which generation in a collection's folder a server loads, and notes it for the server's next start.
//
// Without a note, a server loads what is published: when it starts, and at each reload. It makes a note when a reload
// names a generation or has a revision, as those of routers do. From then on it updates the note at each reload, and
// loads the noted generation when it starts, so that all servers of a cluster serve the generation that was commanded
// last, whatever is published. A reload of this server alone that finds nothing new keeps the last revision, so that
// the server does not count as the one that was told last. Live collections have no note, because their servers compact
// on their own.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/folder.h"
#include "collection/manifest.h"
#include "server/store/collection_store.h"

namespace maxsim::store {

struct LoadKind {
  bool at_start = false;     // of a collection of the configuration, when the server starts
  ReloadTarget target = {};  // of a reload
};

// Describes a collection and its folder before a generation is loaded.
struct FolderState {
  collection::Manifest published;
  bool is_live = false;
  int64_t served = 0;     // the generation that is served; 0: none
  uint64_t revision = 0;  // of the last reload that this process has carried out; 0: none
};

struct WantedGeneration {
  collection::Manifest manifest;
  uint64_t revision = 0;  // of the reload that wants it; 0: none, and nothing is to be noted
};

// Chooses the generation. Returns OUT_OF_RANGE or ABORTED as CollectionStore::Reload does, and DATA_LOSS for a damaged
// note or previous manifest.
absl::StatusOr<WantedGeneration> ChooseWanted(const Folder& folder, const FolderState& state, const LoadKind& kind);

// Returns whether the generation is to be noted after a load that ended with `status`. A load that found no room for
// two generations is noted, too: the server loads the wanted one when it restarts.
bool MustNote(const LoadKind& kind, const WantedGeneration& wanted, const absl::Status& status);

// Notes the generation. If that fails, because the folder is read-only for example, logs why.
void Note(const std::string& name, const Folder& folder, const WantedGeneration& wanted);

// Returns the generation before `served` that the folder keeps; 0 if there is none, or if it cannot be read.
int64_t PreviousOf(const Folder& folder, int64_t served);

}  // namespace maxsim::store
