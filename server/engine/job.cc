#include "server/engine/job.h"

#include <algorithm>
#include <utility>

#include "base/saturating.h"

namespace maxsim::engine {

uint64_t CandidateSet::num_documents(const store::Collection& collection) const {
  switch (kind) {
    case Kind::kWholeCollection:
      return collection.num_documents();
    case Kind::kMatching:
      return matching->num_documents();
    case Kind::kOrdinals:
      return ordinals.size();
    case Kind::kInline:
      return inline_offsets.empty() ? 0 : inline_offsets.size() - 1;
  }
  return 0;
}

uint64_t CandidateSet::num_tokens(const store::Collection& collection) const {
  switch (kind) {
    case Kind::kWholeCollection:
      return collection.num_tokens();
    case Kind::kMatching:
      return matching->num_tokens();
    case Kind::kOrdinals: {
      uint64_t tokens = 0;
      for (const uint64_t ordinal : ordinals) {
        if (ordinal >= collection.num_ordinals()) continue;
        tokens = SaturatingAdd(tokens, static_cast<uint64_t>(collection.num_document_tokens(ordinal)));
      }
      return tokens;
    }
    case Kind::kInline:
      return inline_offsets.empty() ? 0 : static_cast<uint64_t>(std::max<int64_t>(inline_offsets.back(), 0));
  }
  return 0;
}

bool IsScanned(const JobQuery& query, const store::Collection& collection) {
  if (query.refinement.documents == 0 || collection.code_planes() == 0 || query.candidates == nullptr) return false;
  return query.candidates->kind != CandidateSet::Kind::kInline &&
         query.candidates->num_documents(collection) > static_cast<uint64_t>(query.refinement.documents);
}

std::shared_ptr<const store::Collection> AnsweredBy(const Job& job,
                                                    const std::shared_ptr<const store::Collection>& snapshot) {
  const bool scans_whole_collection = std::any_of(job.queries.begin(), job.queries.end(), [](const JobQuery& query) {
    return query.candidates->kind == CandidateSet::Kind::kWholeCollection;
  });
  return job.collection != snapshot && scans_whole_collection ? snapshot : nullptr;
}

uint64_t JobBytes(const Job& job) {
  uint64_t bytes = sizeof(Job) + job.queries.capacity() * sizeof(JobQuery);
  std::vector<const CandidateSet*> known;
  for (const JobQuery& query : job.queries) {
    bytes += query.tokens.capacity() + query.weights.capacity() * sizeof(float);
    const CandidateSet* const set = query.candidates.get();
    if (set == nullptr || std::find(known.begin(), known.end(), set) != known.end()) continue;
    known.push_back(set);
    bytes += sizeof(CandidateSet) + set->ordinals.capacity() * sizeof(set->ordinals[0]) +
             set->positions.capacity() * sizeof(set->positions[0]) + set->inline_tokens.capacity() +
             set->inline_offsets.capacity() * sizeof(set->inline_offsets[0]) +
             set->inline_scales.capacity() * sizeof(set->inline_scales[0]);
    // Counts matching documents although other jobs and the cache of filters share them: these may release them before
    // this job does.
    if (set->matching != nullptr) bytes += set->matching->memory_bytes();
  }
  return bytes;
}

bool MayShareBatch(const Job& a, const Job& b) {
  if (a.collection == b.collection) return true;
  return a.collection->SharesDocumentsWith(*b.collection) && !a.pinned && !b.pinned;
}

bool StreamsWholeCollection(const Job& job) {
  if (job.queries.empty() || !job.collection->is_streamed()) return false;
  return std::all_of(job.queries.begin(), job.queries.end(), [&](const JobQuery& query) {
    return query.candidates != nullptr && query.candidates->kind == CandidateSet::Kind::kWholeCollection &&
           !IsScanned(query, *job.collection);
  });
}

void ComputeWork(Job* job) {
  uint64_t work = 0;
  // A request has few different sets, so a linear search is faster than a map.
  std::vector<std::pair<const CandidateSet*, uint64_t>> known;
  for (const JobQuery& query : job->queries) {
    const CandidateSet* const set = query.candidates.get();
    if (set == nullptr) continue;
    auto found = std::find_if(known.begin(), known.end(), [set](const auto& entry) { return entry.first == set; });
    if (found == known.end()) found = known.insert(known.end(), {set, set->num_tokens(*job->collection)});
    work = SaturatingAdd(work, SaturatingMultiply(static_cast<uint64_t>(std::max(query.num_tokens, 0)), found->second));
  }
  job->work = work;
}

}  // namespace maxsim::engine
