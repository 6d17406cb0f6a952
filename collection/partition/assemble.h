// Assembles the folder of a live collection from snapshots of servers that hold other slots: keeps some of the slots of
// one server, or joins slots of several. A server that loads the result follows the stream from there on.
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

// Makes the live collection `options.output` from the documents of the wanted slots, and returns its manifest.
//
// `folders`: snapshots of live collections, which the caller owns and which this function changes (it compacts them).
// No server may have them loaded. Their slots may overlap, and they may be at different sequences. Each slot is taken
// from one source. The sources are chosen so that as few bytes as possible are read; if several choices are equal, so
// that the result's position is as high as possible. The same sources always give the same result.
//
// The result has the collection's name, encoder, codes and fields. Its documents have the bytes and the positions that
// they have in the sources, to the bit, with two exceptions. In a result of all slots, which is a whole collection,
// the position of a document is its number, in the order of the sources' positions. And if two sources were cut from a
// whole collection at different times, two documents may have the same position (below kFirstWrittenPosition): that of
// the higher slots then gets the next free one.
//
// Its log has:
// - the stream of the sources. All sources must be of one stream (MayBeSame).
// - the position in the stream: the lowest sequence of the sources that are used. The log is empty, so that a server
//   applies the messages after this position. For a server of a source that was further, these include messages that
//   the source already had. part_logs.h says why the result is the same.
// - the versions of the ids, also of deleted ones, as far as the sources remember them (version_memory.h).
//
// If a single source has exactly the wanted slots, the result is a copy of it (hard links, where possible), which need
// not be compacted. Its log then may have writes after the manifest's log_sequence.
//
// Logs without a stream: the documents of one source can be narrowed. Several sources can only be joined with all of
// their slots. The result's position is then the highest of their sequences.
//
// The output appears complete, under its name, or not at all; its files are on disk when this function returns.
// `observer` sees the writing of the result's shards and codes, but not the compaction of the sources. Reads each shard
// of the sources that are used. Holds in memory the catalog of the result's documents (catalog.h). Not to be called
// twice at the same time with a common source.
//
// Returns INVALID_ARGUMENT if there is no source, or if the sources do not have all wanted slots; ALREADY_EXISTS if the
// output exists; NOT_FOUND for a folder without a collection; FAILED_PRECONDITION, naming two folders, if sources are
// not of one collection or not of one stream, and FAILED_PRECONDITION for a source that is not live or is open in
// another process; DATA_LOSS for damaged files; RESOURCE_EXHAUSTED if the disk is full; the status of `options.stop`
// once it is stopped; the first error that `observer` returns.
absl::StatusOr<Manifest> AssembleLive(const std::vector<std::string>& folders, const AssembleOptions& options,
                                      const BuildObserver& observer = nullptr);

}  // namespace maxsim::collection
