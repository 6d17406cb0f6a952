#include "server/store/collection/facets.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/types/span.h"
#include "collection/filters/field_index.h"
#include "server/store/collection/matching_documents.h"
#include "server/store/collection/part.h"
#include "server/store/collection/part_fields.h"

namespace maxsim::store {
namespace {

// `check` is called each time this many values have been counted, which takes about 10 us if few documents have each
// value, and longer otherwise.
constexpr uint64_t kValuesPerCheck = 256;

// Returns a bit for each document of a part. The bit is set if the document must be counted.
std::vector<uint64_t> MaskOfPart(const Collection& collection, const MatchingDocuments* matching, size_t part_idx) {
  const auto num_documents = static_cast<size_t>(collection.part(part_idx).num_documents());
  std::vector<uint64_t> mask((num_documents + 63) / 64);
  const auto flip = [&mask](uint32_t ordinal) { mask[ordinal / 64] ^= uint64_t{1} << (ordinal % 64); };
  if (matching == nullptr) {
    // Bits after the last document do no harm, because no value has such a document.
    std::fill(mask.begin(), mask.end(), ~uint64_t{0});
    for (const uint32_t ordinal : collection.tombstones(part_idx, 0)) flip(ordinal);
  } else if (matching->mask(part_idx) != nullptr) {
    mask = *matching->mask(part_idx);
  } else {
    for (const uint32_t ordinal : *matching->List(part_idx)) flip(ordinal);
  }
  return mask;
}

// Walks through the terms of one index in ascending order.
struct TermCursor {
  const collection::TermLists* terms;
  absl::Span<const uint64_t> mask;  // of the part
  uint32_t first;                   // ordinal of the index's first document in the part
  size_t idx = 0;

  std::string_view term() const { return terms->term(idx); }
};

struct LaterTerm {
  bool operator()(const TermCursor& a, const TermCursor& b) const { return a.term() > b.term(); }
};
using TermCursors = std::priority_queue<TermCursor, std::vector<TermCursor>, LaterTerm>;

struct CountedTerm {
  std::string_view term;
  uint64_t count;
};

// The order of results. A heap that uses this order has the last result at its top.
bool IsBefore(const CountedTerm& a, const CountedTerm& b) {
  return std::tie(b.count, a.term) < std::tie(a.count, b.term);
}

// Finds the smallest term of all cursors, counts its documents, and advances the cursors that are at this term.
CountedTerm TakeTerm(TermCursors& cursors) {
  CountedTerm counted{cursors.top().term(), 0};
  while (!cursors.empty() && cursors.top().term() == counted.term) {
    TermCursor cursor = cursors.top();
    cursors.pop();
    counted.count += cursor.terms->CountIn(cursor.idx, cursor.mask, cursor.first);
    if (++cursor.idx < cursor.terms->size()) cursors.push(cursor);
  }
  return counted;
}

}  // namespace

absl::StatusOr<Facets> CountFacets(const Collection& collection, std::string_view field,
                                   const MatchingDocuments* matching, size_t limit, const StopCheck& check) {
  std::vector<std::vector<uint64_t>> masks;
  masks.reserve(collection.num_parts());
  std::vector<TermCursor> begins;
  for (size_t part_idx = 0; part_idx < collection.num_parts(); ++part_idx) {
    if (check != nullptr) {
      if (absl::Status status = check(); !status.ok()) return status;
    }
    const Part& part = collection.part(part_idx);
    if (part.fields == nullptr) return absl::InternalError("a part of the collection has no fields");
    masks.push_back(MaskOfPart(collection, matching, part_idx));
    part.fields->ForEachBlock([&](const collection::ShardIndex& index, uint32_t first) {
      const collection::FieldIndex* const values = index.Find(field);
      if (values == nullptr || values->terms().size() == 0) return;
      begins.push_back({.terms = &values->terms(), .mask = masks.back(), .first = first});
    });
  }

  // Terms come in ascending order. So the count of each term is complete before the next term begins, and only the
  // `limit` terms with the highest counts need to be kept.
  TermCursors cursors(LaterTerm(), std::move(begins));
  std::vector<CountedTerm> best;  // a heap
  Facets facets;
  for (uint64_t num_terms = 1; !cursors.empty(); ++num_terms) {
    if (check != nullptr && num_terms % kValuesPerCheck == 0) {
      if (absl::Status status = check(); !status.ok()) return status;
    }
    const CountedTerm counted = TakeTerm(cursors);
    if (counted.count == 0) continue;
    ++facets.num_values;
    if (best.size() == limit) {
      if (!IsBefore(counted, best.front())) continue;
      std::pop_heap(best.begin(), best.end(), IsBefore);
      best.pop_back();
    }
    best.push_back(counted);
    std::push_heap(best.begin(), best.end(), IsBefore);
  }
  std::sort_heap(best.begin(), best.end(), IsBefore);
  facets.values.reserve(best.size());
  for (const CountedTerm& counted : best) facets.values.push_back({std::string(counted.term), counted.count});
  facets.num_documents = matching == nullptr ? collection.num_documents() : matching->num_documents();
  return facets;
}

}  // namespace maxsim::store
