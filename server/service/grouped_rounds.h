// Answers a request with group_by by several plain jobs, scored one after another (rounds). Uses no queue and no clock.
//
// 1. The first job ranks the best candidates that have a value of the field. Groups are found in the order of their
//    best documents, because these come in rank order. If this finds too few groups and there are more candidates, a
//    further job ranks the candidates that belong to none of the groups found.
// 2. A group that may lack documents gets a query of its own, over its documents alone.
// 3. If alignments are asked for, a last job scores the results again. It computes the same scores, bit for bit.
//
// Each job of step 1 finds at least one group and leaves out all candidates that the previous one ranked. So step 1
// takes at most as many jobs as groups are asked for, and mostly one. The queries of step 2 together score no candidate
// twice. docs/internals/groups.md has the proof.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/stop.h"
#include "kernels/limits.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/engine/job.h"
#include "server/service/page/grouping.h"
#include "server/service/request/answer.h"
#include "server/service/request/translate.h"

namespace maxsim::service {

struct GroupedRoundsOptions {
  // Minimum number of candidates that the first job ranks. Each further job ranks four times as many, up to max_ranked.
  int32_t min_ranked = 256;
  int32_t max_ranked = kMaxTopK;
  size_t max_queries_per_job = 64;  // each over the documents of one group
};

class GroupedRounds {
 public:
  // `translated` must be the translation of a request with group_by, and have a job.
  explicit GroupedRounds(Translated translated, const GroupedRoundsOptions& options = {});

  // Returns the next job, or null when the answer is complete. The caller sets the job's deadline, cancellation, bytes
  // and `done`. Returns the error of `check` (may be null), which it calls now and then, or an error if the refinement
  // options do not suit the candidates.
  absl::StatusOr<std::unique_ptr<engine::Job>> Next(const StopCheck& check);

  // Takes the result of the last job.
  absl::Status Take(engine::JobResult result);

  // Returns the bytes of memory that this object keeps from one round to the next.
  uint64_t held_bytes() const { return engine::JobBytes(*first_); }

  // Return the two parts of the answer. After Next has returned null, result() has the results of the requested page,
  // group by group.
  const PendingAnswer& answer() const { return answer_; }
  const engine::JobResult& result() const { return result_; }

 private:
  struct Group {
    std::string value;
    std::vector<engine::Hit> hits = {};  // in rank order
    bool is_complete = false;            // every document of the group that belongs to the answer is in `hits`
  };

  // The groups of one query, as far as they are known.
  struct Ranking {
    size_t query = 0;  // in PendingAnswer::queries
    std::vector<Group> groups = {};
    std::unordered_map<std::string, size_t> by_value = {};
    bool has_all_groups = false;
    std::optional<v1::Refinement> refinement = {};
  };

  // The purpose of a query in the last job.
  struct Asked {
    size_t ranking = 0;
    std::optional<size_t> group = {};  // nullopt if it looks for groups
    int32_t num_ranked = 0;
  };

  enum class Stage : uint8_t { kGroups, kMembers, kAlignments, kDone };

  absl::Status AskForGroups(const StopCheck& check, engine::Job& job);
  absl::Status AskForMembers(const StopCheck& check, engine::Job& job);
  void AskForAlignments(engine::Job& job);
  absl::Status AddQuery(const Asked& asked, std::shared_ptr<const engine::CandidateSet> candidates, engine::Job& job);
  absl::StatusOr<std::shared_ptr<const engine::CandidateSet>> Narrow(size_t ranking, collection::Filter filter,
                                                                     const StopCheck& check) const;
  absl::Status TakeGroups(Ranking& ranking, absl::Span<const engine::Hit> hits, int32_t num_ranked);
  bool IsLeftOut(const Ranking& ranking, const engine::Hit& hit) const;
  void AddRefinement(const engine::JobQueryResult& result, Ranking& ranking) const;
  // Orders the groups, and puts the groups of the requested page into the result.
  void Arrange();

  const GroupedRoundsOptions options_;
  PendingAnswer answer_;
  const std::shared_ptr<const Grouping> grouping_;
  const Page page_;
  const std::unique_ptr<engine::Job> first_;  // the queries, with all candidates
  std::vector<Ranking> rankings_;             // [queries of first_]
  Stage stage_ = Stage::kGroups;
  int32_t num_ranked_;
  int num_jobs_ = 0;
  std::vector<Asked> asked_;  // [queries of the last job]
  engine::JobResult result_;
};

}  // namespace maxsim::service
