#include <algorithm>

#include "absl/time/clock.h"
#include "server/engine/batch.h"

namespace maxsim::engine {

bool Lane::Batch::WantsAlignments(const QueryRun& run) const {
  return Alive(run) && run.query->want_alignments && !run.result.hits.empty();
}

// Aligns `hits` ({document of `documents`, index of the hit}) and puts each row of matches where its hit stands.
void Lane::Batch::AlignHits(QueryRun* run, const Documents& documents,
                            absl::Span<const std::pair<uint32_t, size_t>> hits) {
  const auto num_tokens = static_cast<size_t>(run->query->num_tokens);
  std::vector<TokenMatch>& matches = run->result.matches;
  matches.resize(run->result.hits.size() * num_tokens);
  const auto piece = static_cast<size_t>(limits_.max_candidates);
  for (; !hits.empty() && Alive(*run); hits.remove_prefix(std::min(piece, hits.size()))) {
    const auto some = hits.first(std::min(piece, hits.size()));
    DropCancelledAndExpired();
    if (!Alive(*run)) return;
    scratch_.ordinals.clear();
    for (const auto& [ordinal, hit_idx] : some) scratch_.ordinals.push_back(ordinal);
    scratch_.matches.resize(some.size() * num_tokens);
    const absl::Time start = absl::Now();
    const absl::Status status =
        executor_.Align(documents, ToQuery(*run), scratch_.ordinals, absl::MakeSpan(scratch_.matches));
    if (!status.ok()) {
      FailCall(run->job_idx, status);
      return;
    }
    stats_.timings.kernel_seconds += absl::ToDoubleSeconds(absl::Now() - start);
    for (size_t idx = 0; idx < some.size(); ++idx) {
      std::copy_n(scratch_.matches.begin() + static_cast<ptrdiff_t>(idx * num_tokens), num_tokens,
                  matches.begin() + static_cast<ptrdiff_t>(some[idx].second * num_tokens));
    }
  }
}

void Lane::Batch::AlignCollectionHits(QueryRun* run) {
  // Sorted by part: one call a part.
  std::vector<HitPlace>& places = scratch_.places;
  places.clear();
  for (size_t idx = 0; idx < run->result.hits.size(); ++idx) {
    const store::Collection::Location place = collection_.Locate(run->result.hits[idx].ordinal);
    places.push_back({place.part, place.ordinal, idx});
  }
  std::stable_sort(places.begin(), places.end(), [](const HitPlace& a, const HitPlace& b) { return a.part < b.part; });
  for (size_t begin = 0; begin < places.size() && Alive(*run);) {
    const uint32_t part = places[begin].part;
    scratch_.hits.clear();
    for (; begin < places.size() && places[begin].part == part; ++begin) {
      scratch_.hits.emplace_back(places[begin].ordinal, places[begin].hit_idx);
    }
    AlignHits(run, *collection_.parts()[part].copies.front().documents, scratch_.hits);
  }
}

void Lane::Batch::AlignInlineHits(const QueryGroup& group, const Documents& documents, int64_t begin, int64_t end) {
  for (QueryRun& run : RunsOf(group)) {
    if (!WantsAlignments(run)) continue;
    scratch_.hits.clear();
    for (size_t idx = 0; idx < run.result.hits.size(); ++idx) {
      const auto document = static_cast<int64_t>(run.result.hits[idx].ordinal);
      if (document < begin || document >= end) continue;
      scratch_.hits.emplace_back(static_cast<uint32_t>(document - begin), idx);
    }
    AlignHits(&run, documents, scratch_.hits);
  }
}

}  // namespace maxsim::engine
