// A part of a collection, whose documents are scored in one call: a shard, or a segment of a live collection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "collection/codes/shard_codes.h"
#include "collection/shard.h"
#include "kernels/codes/scan_executor.h"
#include "kernels/maxsim.h"
#include "server/store/memory/device_set.h"
#include "server/store/memory/residency.h"

namespace maxsim::store {

class PartFields;
class Segment;
class SlotMasks;

// Holds the tokens of a part on one device. Copies share them.
struct Replica {
  uint32_t device = 0;  // index in the server's DeviceSet
  std::shared_ptr<const Documents> documents;
  std::shared_ptr<const LoadedCodes> codes = {};  // of the same documents; null if this replica has no codes
};

// A loaded part: in one tier, on one device or replicated on several. Copies of this struct share all memory.
struct Part {
  std::shared_ptr<const collection::Shard> shard;  // null for a segment
  std::shared_ptr<const Segment> segment;          // null for a shard
  // The files of codes, if they are scanned in place; null if the part has no codes, or if each device has a copy of
  // the codes.
  std::shared_ptr<const collection::ShardCodes> codes;
  std::shared_ptr<const PartFields> fields;  // null if the collection has no fields
  std::shared_ptr<SlotMasks> slot_masks;     // of its documents' ids; null: ids are hashed for each filter with slots
  std::shared_ptr<const void> reservation;   // keeps the replicas' memory reserved; may be null
  Residency tier = Residency::kHost;         // never kAuto
  std::vector<Replica> replicas;             // by device, at least one
  uint64_t first_ordinal = 0;
  // The documents' shape and offsets. Use the replicas for the tokens.
  DocumentsView view;

  int64_t num_documents() const { return view.num_documents; }
  int64_t num_tokens() const { return view.num_tokens(); }
  // Returns null if `device` has no replica.
  const Documents* DocumentsOn(uint32_t device) const;
  // Returns null if `device` has no codes of the part.
  const LoadedCodes* CodesOn(uint32_t device) const;
  // Returns the planes of codes (bits per value) of each replica: 1, 2, 4; 0: no codes.
  int code_planes() const;
  // Returns whether a device that still answers has a replica.
  bool IsAvailable(const DeviceSet& devices) const;
};

// How a scan of a part leaves out the documents that have a tombstone or do not match a filter. The scan scores
// `ordinals` (all documents if that is null), asks for one extra result for each entry of `tombstones`, and then drops
// the results whose document is in `tombstones`.
struct ScanFilter {
  std::shared_ptr<const std::vector<uint32_t>> ordinals;   // in the part, ascending; null for all
  uint64_t num_tokens = 0;                                 // of `ordinals`
  std::vector<uint32_t> tombstones;                        // in the part, ascending; kMaxExtraResults at most
  std::shared_ptr<const std::vector<uint64_t>> mask = {};  // `ordinals` as a bitmap (Query::mask); may be null

  // The maximum size of `tombstones`. If more documents of a part have a tombstone, `ordinals` is a list without some
  // of them.
  static constexpr size_t kMaxExtraResults = 256;

  bool HasTombstone(uint32_t ordinal) const;
};

// Says which documents of a part a scan of its codes considers (bit is 1), and which it leaves out because they have a
// tombstone or do not match a filter (ScanQuery::mask).
struct ScanMask {
  std::shared_ptr<const std::vector<uint64_t>> words;  // at least one bit for each document of the part
  uint64_t num_tokens = 0;                             // of the documents that are not left out

  bool Has(int64_t ordinal) const { return ((*words)[static_cast<size_t>(ordinal) / 64] >> (ordinal % 64) & 1) != 0; }
};

}  // namespace maxsim::store
