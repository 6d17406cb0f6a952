// Assembles the folder of a live collection from snapshots of servers with other slots: takes some slots of one
// snapshot, or joins slots of several. A server that loads the result then applies the stream's later messages.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/stop.h"
#include "collection/build/builder.h"
#include "collection/manifest.h"
#include "collection/slots.h"

namespace maxsim::collection {

struct AssembleOptions {
  std::string output;  // folder of the result; must not exist
  SlotRange slots;     // the documents to keep; the sources together must hold all of these
  int64_t max_shard_bytes = kDefaultMaxShardBytes;
  std::string created_by = "maxsim-shard";
  const StopSignal* stop = nullptr;
};

// Creates the live collection `options.output` with the documents of `options.slots`, and returns its manifest.
//
// `folders` are the sources: snapshots of live collections, which no server may have loaded, and which this function
// changes (it compacts them). Their slots may overlap, and they may be at different sequences. Each slot is taken from
// one source. Chooses the sources so that few bytes are read (ChooseSources). The same sources always give the same
// result.
//
// The result has the sources' name, encoder, codes and fields. Documents keep their bytes and their positions
// (positions.h), with two exceptions. In a result of all slots, documents are numbered anew in the order of their
// positions. And two documents may have the same position if their sources were cut from a whole collection at
// different times: then the document of the later source gets the next free position.
//
// Its log has:
// - the stream of the sources. All sources must be of one stream (MayBeSame).
// - the position in the stream: the lowest sequence of the sources that are used. The log has no writes, so a server
//   applies the stream's messages after this position, including messages that some sources already had. part_logs.h
//   explains why that is harmless.
// - the versions of the ids, also of deleted ones, as far as the sources remember them (version_memory.h).
//
// If a source has exactly the wanted slots, the result is a copy of this source (hard links, where possible), which is
// not compacted. Its log may have writes after the manifest's log_sequence.
//
// Without a stream, the result can have some slots of one source, or all slots of several sources, but not some slots
// of several. The log then goes on after the highest of the sources' sequences.
//
// The output appears complete or not at all, and is on disk when this function returns. `observer` sees the writing of
// the result, but not the compaction of the sources. Holds in memory the catalog of the result's documents (catalog.h).
// Two calls at the same time must not have a common source.
//
// Returns INVALID_ARGUMENT if there is no source, or if the sources do not have all wanted slots; ALREADY_EXISTS if the
// output exists; NOT_FOUND for a folder without a collection; FAILED_PRECONDITION if sources are not of one collection
// or one stream, or if a source is not live or is open in another process; DATA_LOSS for damaged files;
// RESOURCE_EXHAUSTED if the disk is full; the status of `options.stop` once it is stopped; the first error that
// `observer` returns.
absl::StatusOr<Manifest> AssembleLive(const std::vector<std::string>& folders, const AssembleOptions& options,
                                      const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
