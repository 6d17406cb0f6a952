#include "server/cluster/parts/group_members.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "server/cluster/parts/part_result.h"
#include "server/service/request/refinement.h"

namespace maxsim::cluster {
namespace {

// Returns the group_by values of all groups up to the end of the page. The groups before the page are included
// because they determine where the page begins.
std::vector<std::string> ChosenValues(const SplitRequest& split, const std::vector<PartResult>& results) {
  const std::vector<HitGroup> groups = GroupsOf(results);
  const size_t end = std::min(groups.size(), static_cast<size_t>(split.page.num_ranked()));
  std::vector<std::string> values;
  for (size_t group = 0; group < end; ++group) values.emplace_back(groups[group].value);
  return values;
}

// Returns whether a part may have documents of these groups that its result does not have.
bool MayHaveMore(const SplitRequest& split, const v1::QueryResult& result, const std::vector<std::string>& values) {
  const std::unordered_set<std::string_view> known(result.group_values().begin(), result.group_values().end());
  // A part that returned fewer groups than it was asked for has returned all of its groups.
  if (known.size() < static_cast<size_t>(split.page.num_ranked())) return false;
  return std::any_of(values.begin(), values.end(), [&](const std::string& value) { return !known.contains(value); });
}

std::shared_ptr<const v1::RerankRequest> RequestFor(const PartResult& of, const std::vector<std::string>& values) {
  auto request = std::make_shared<v1::RerankRequest>(*of.part->request);
  const v1::Query query = request->queries(static_cast<int>(of.sub_query));
  request->clear_queries();
  *request->add_queries() = query;
  request->set_top_k(static_cast<uint32_t>(values.size()));
  request->mutable_group_values()->Assign(values.begin(), values.end());
  return request;
}

}  // namespace

std::vector<MembersRequest> FindMissingMembers(const SplitRequest& split,
                                               std::vector<absl::StatusOr<v1::RerankResponse>>& answers) {
  std::vector<MembersRequest> missing;
  if (split.group_size <= 1) return missing;
  std::vector<std::vector<PartResult>> results(split.queries.size());
  std::vector<std::vector<size_t>> part_requests(split.queries.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i].ok()) continue;
    for (size_t sub_query = 0; sub_query < split.parts[i].queries.size(); ++sub_query) {
      const auto query = static_cast<size_t>(split.parts[i].queries[sub_query]);
      results[query].push_back({&split.parts[i], sub_query, answers[i]->mutable_results(static_cast<int>(sub_query))});
      part_requests[query].push_back(i);
    }
  }
  for (size_t query = 0; query < results.size(); ++query) {
    if (results[query].size() <= 1) continue;
    const std::vector<std::string> values = ChosenValues(split, results[query]);
    for (size_t from = 0; from < results[query].size(); ++from) {
      const PartResult& of = results[query][from];
      if (!MayHaveMore(split, *of.result, values)) continue;
      missing.push_back({part_requests[query][from], of.sub_query, RequestFor(of, values)});
    }
  }
  return missing;
}

void ReplaceResults(const std::vector<MembersRequest>& requests,
                    std::vector<absl::StatusOr<v1::RerankResponse>> members,
                    std::vector<absl::StatusOr<v1::RerankResponse>>& answers) {
  for (size_t i = 0; i < requests.size(); ++i) {
    absl::StatusOr<v1::RerankResponse>& answer = answers[requests[i].part_request];
    if (!answer.ok()) continue;
    if (!members[i].ok()) {
      answer = members[i].status();
      continue;
    }
    v1::QueryResult& result = *answer->mutable_results(static_cast<int>(requests[i].sub_query));
    v1::QueryResult& whole = *members[i]->mutable_results(0);
    // The refinement counts both scans: the first scan chose the groups, the second fetched their members.
    if (result.has_refinement()) {
      v1::Refinement scan = result.refinement();
      if (whole.has_refinement()) service::AddScan(whole.refinement(), scan);
      *whole.mutable_refinement() = std::move(scan);
    }
    result.Swap(&whole);
    answer->set_sequence(std::min(answer->sequence(), members[i]->sequence()));
  }
}

}  // namespace maxsim::cluster
