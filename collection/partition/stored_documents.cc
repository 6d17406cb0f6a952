#include "collection/partition/stored_documents.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <tuple>

#include "base/text.h"
#include "collection/formats/element_type.h"
#include "kernels/scalar_type.h"

namespace maxsim::collection {
namespace {

size_t RowBytes(const DocumentsView& documents) { return static_cast<size_t>(documents.dim) * SizeOf(documents.type); }

std::string_view RowsOf(const DocumentsView& documents, int64_t document) {
  const size_t row_bytes = RowBytes(documents);
  const int64_t first = documents.offsets[document];
  return {static_cast<const char*>(documents.tokens) + static_cast<size_t>(first) * row_bytes,
          static_cast<size_t>(documents.offsets[document + 1] - first) * row_bytes};
}

// Returns the position (positions.h) of a shard's document. `shard_begin` is the number of documents in the shards
// before it, which is needed in a whole collection.
int64_t PositionIn(const Shard& shard, int64_t shard_begin, int64_t document) {
  const int64_t* const ordinals = shard.ordinals();
  return ordinals == nullptr ? shard_begin + document : ordinals[document];
}

// Returns the position of the tokens in the bytes of the shard's file.
size_t TokensBegin(const Shard& shard) {
  return static_cast<size_t>(static_cast<const char*>(shard.documents().tokens) - shard.bytes().data());
}

}  // namespace

StoredWalk::StoredWalk(absl::Span<const StoredCollection> collections, bool hashes, const StopSignal* stop)
    : hashes_(hashes), stop_(stop) {
  for (const StoredCollection& one : collections) {
    const SlotRange held = one.manifest.slots();
    const bool has_others = one.max_position < kMaxPosition || held.first < one.slots.first || one.slots.end < held.end;
    sources_.push_back({.collection = &one, .has_others = has_others, .shard = nullptr});
  }
}

absl::Status StoredWalk::OpenNext(Source& source) const {
  const std::string& folder = source.collection->folder;
  const Manifest& manifest = source.collection->manifest;
  absl::StatusOr<std::shared_ptr<const Shard>> opened =
      Shard::Open(folder, manifest, manifest.shards[source.next_shard++], Access::kMapped, /*check_checksum=*/false);
  if (!opened.ok()) return opened.status();
  source.shard = *std::move(opened);
  source.next_document = 0;
  if (!hashes_) return absl::OkStatus();
  const DocumentsView& documents = source.shard->documents();
  source.bytes_left = static_cast<size_t>(documents.num_tokens()) * RowBytes(documents);
  source.checksum.emplace();
  source.checksum->Update(source.shard->bytes().data(), TokensBegin(*source.shard));
  return absl::OkStatus();
}

// Returns whether a document of the source's shard is passed over.
bool StoredWalk::IsOther(const Source& source, int64_t document) {
  if (!source.has_others) return false;
  const Shard& shard = *source.shard;
  const int32_t slot =
      shard.id_type() == IdType::kString ? SlotOf(shard.string_id(document)) : SlotOf(shard.int_id(document));
  return !source.collection->slots.contains(slot) ||
         PositionIn(shard, source.shard_begin, document) > source.collection->max_position;
}

// Skips documents of the source's shard that are not selected, up to the next selected one or the shard's end.
absl::Status StoredWalk::PassOthers(Source& source) {
  const DocumentsView& documents = source.shard->documents();
  for (; source.next_document < documents.num_documents && IsOther(source, source.next_document);
       ++source.next_document) {
    if (num_passed_++ % kStopBlockDocuments == 0 && Stopped(stop_)) return StopStatus(stop_);
    if (!hashes_) continue;
    const std::string_view rows = RowsOf(documents, source.next_document);
    if (absl::Status status = AddToChecksum(source, rows.data(), rows.size()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// Adds the source's next document to the heap, if there is one.
absl::Status StoredWalk::Advance(size_t source_idx) {
  Source& source = sources_[source_idx];
  while (true) {
    if (source.shard != nullptr) {
      if (absl::Status status = PassOthers(source); !status.ok()) return status;
      const int64_t num_documents = source.shard->documents().num_documents;
      if (source.next_document < num_documents) break;
      source.shard_begin += num_documents;
      source.shard.reset();
    }
    if (source.next_shard == source.collection->manifest.shards.size()) return absl::OkStatus();
    if (absl::Status status = OpenNext(source); !status.ok()) return status;
  }
  const int64_t position = PositionIn(*source.shard, source.shard_begin, source.next_document);
  if (position <= source.last_position) {
    return absl::DataLossError(Cat(source.shard->path(), ": ordinals[", source.next_document, "]: ", position,
                                   " is not above ", source.last_position, ", which is that of the document before"));
  }
  source.last_position = position;
  next_.emplace_back(position, source_idx);
  std::push_heap(next_.begin(), next_.end(), std::greater<>());
  return absl::OkStatus();
}

absl::StatusOr<bool> StoredWalk::Next() {
  if (num_passed_++ % kStopBlockDocuments == 0 && Stopped(stop_)) return StopStatus(stop_);
  if (!has_begun_) {
    has_begun_ = true;
    for (size_t idx = 0; idx < sources_.size(); ++idx) {
      if (absl::Status status = Advance(idx); !status.ok()) return status;
    }
  } else if (absl::Status status = Advance(source_); !status.ok()) {
    return status;
  }
  if (next_.empty()) return false;
  std::pop_heap(next_.begin(), next_.end(), std::greater<>());
  std::tie(position_, source_) = next_.back();
  next_.pop_back();
  document_ = sources_[source_].next_document++;
  row_bytes_left_ = rows().size();
  return true;
}

int32_t StoredWalk::num_tokens() const {
  const int64_t* const offsets = shard().documents().offsets + document_;
  return static_cast<int32_t>(offsets[1] - offsets[0]);
}

float StoredWalk::scale() const { return shard().documents().scales[document_]; }

std::string_view StoredWalk::rows() const { return RowsOf(shard().documents(), document_); }

absl::Status StoredWalk::HashRows(const void* data, size_t count) {
  Source& source = sources_[source_];
  if (absl::Status status = AddToChecksum(source, data, count); !status.ok()) return status;
  row_bytes_left_ -= count;
  // Skips the documents up to the next selected one now. If none follows in the shard, this completes the checksum.
  return row_bytes_left_ > 0 ? absl::OkStatus() : PassOthers(source);
}

absl::Status StoredWalk::AddToChecksum(Source& source, const void* data, size_t count) {
  source.checksum->Update(data, count);
  source.bytes_left -= count;
  if (source.bytes_left > 0) return absl::OkStatus();
  const Shard& shard = *source.shard;
  const DocumentsView& documents = shard.documents();
  const size_t end = TokensBegin(shard) + static_cast<size_t>(documents.num_tokens()) * RowBytes(documents);
  source.checksum->Update(shard.bytes().data() + end, shard.bytes().size() - end);
  // If a file was written to, report that instead of a wrong checksum.
  if (absl::Status status = shard.Check(); !status.ok()) return status;
  const std::string found = source.checksum->Format();
  const std::string& expected = source.collection->manifest.shards[source.next_shard - 1].checksum;
  if (found == expected) return absl::OkStatus();
  return absl::DataLossError(Cat(shard.path(), ": checksum: ", found, ", but the manifest says ", expected));
}

absl::StatusOr<std::unique_ptr<Catalog>> ReadStoredCatalog(absl::Span<const StoredCollection> collections,
                                                           const StoredCatalogOptions& options) {
  const IdType id_type = collections.front().manifest.id_type;
  auto catalog = std::make_unique<Catalog>(id_type);
  StoredWalk walk(collections, /*hashes=*/false, options.stop);
  int64_t last_position = -1;
  while (true) {
    const absl::StatusOr<bool> found = walk.Next();
    if (!found.ok()) return found.status();
    if (!*found) return catalog;
    const absl::Status added =
        id_type == IdType::kString ? catalog->ids.Add(walk.string_id()) : catalog->ids.Add(walk.int_id());
    // The ids of a collection and of its partitions are all different, so a duplicate means damage.
    if (!added.ok()) return absl::DataLossError(Cat(walk.folder(), ": ", added.message()));
    catalog->lengths.push_back(walk.num_tokens());
    if (options.has_payloads) catalog->payload_sizes.push_back(static_cast<int32_t>(walk.payload().size()));
    if (!options.has_positions) continue;
    const bool is_free = walk.position() > last_position;
    if (!is_free && (!options.moves_equal_positions || walk.position() >= kFirstWrittenPosition)) {
      return absl::FailedPreconditionError(Cat(
          walk.folder(), ": document ", catalog->ids.Format(catalog->ids.size() - 1), " has position ", walk.position(),
          ", as one of another partition has, which was written after the collection was cut; "
          "merge all partitions into a whole collection, and split that"));
    }
    last_position = is_free ? walk.position() : last_position + 1;
    catalog->positions.push_back(last_position);
  }
}

StoredTokens::StoredTokens(absl::Span<const StoredCollection> collections, int64_t num_tokens, const StopSignal* stop)
    : manifest_(collections.front().manifest), num_tokens_(num_tokens), walk_(collections, /*hashes=*/true, stop) {}

ElementType StoredTokens::type() const { return StoredElementType(manifest_.storage); }

absl::StatusOr<const void*> StoredTokens::Next(int64_t num_rows) {
  const auto wanted = static_cast<size_t>(num_rows * dim()) * SizeOf(type());
  block_.resize(wanted);
  for (size_t done = 0; done < wanted;) {
    if (rest_.empty()) {
      const absl::StatusOr<bool> found = walk_.Next();
      if (!found.ok()) return found.status();
      if (!*found) return absl::OutOfRangeError("the read asks for more token vectors than there are");
      rest_ = walk_.rows();
      if (manifest_.storage == ScalarType::kI8) scales_.push_back(walk_.scale());
    }
    const size_t count = std::min(wanted - done, rest_.size());
    std::memcpy(block_.data() + done, rest_.data(), count);
    if (absl::Status status = walk_.HashRows(block_.data() + done, count); !status.ok()) return status;
    rest_.remove_prefix(count);
    done += count;
  }
  return block_.data();
}

absl::StatusOr<float> StoredTokens::NextStoredScale() {
  if (scales_.empty()) return absl::OutOfRangeError("the read asks for more scales than there are documents");
  const float scale = scales_.front();
  scales_.pop_front();
  return scale;
}

absl::StatusOr<std::string_view> StoredPayloads::Next() {
  const absl::StatusOr<bool> found = walk_.Next();
  if (!found.ok()) return found.status();
  if (!*found) return absl::OutOfRangeError("the read asks for more payloads than there are");
  return walk_.payload();
}

}  // namespace maxsim::collection
