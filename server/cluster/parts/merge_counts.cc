#include "server/cluster/parts/merge_counts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "server/cluster/parts/answer_snapshot.h"
#include "server/service/call/status.h"
#include "server/service/documents/document_counts.h"

namespace maxsim::cluster {
namespace {

// The order of values in an answer.
template <typename Value>
bool IsBefore(const Value& a, const Value& b) {
  return std::make_tuple(b.count(), std::string_view(a.value())) <
         std::make_tuple(a.count(), std::string_view(b.value()));
}

// A value with the sum of its counts.
struct Sum {
  std::string_view text;
  uint64_t documents = 0;

  std::string_view value() const { return text; }
  uint64_t count() const { return documents; }
};

}  // namespace

std::optional<AnswerFault> CheckCountAnswer(const v1::CountRequest& request, const v1::CountResponse& answer) {
  return CheckSnapshot(request, answer);
}

std::optional<AnswerFault> CheckCountAnswer(const v1::FacetsRequest& request, const v1::FacetsResponse& answer) {
  if (std::optional<AnswerFault> fault = CheckSnapshot(request, answer); fault.has_value()) return fault;
  const uint64_t limit = request.limit() == 0 ? service::kDefaultFacetValues : request.limit();
  if (static_cast<uint64_t>(answer.values_size()) != std::min(limit, answer.num_values())) {
    return AnswerFault{"values", absl::StrCat("values has ", answer.values_size(), " elements of ", answer.num_values(),
                                              ", but ", limit, " were asked for")};
  }
  for (int i = 0; i < answer.values_size(); ++i) {
    const v1::FacetValue& value = answer.values(i);
    if (value.count() < 1 || value.count() > answer.num_documents()) {
      return AnswerFault{
          "count", absl::StrCat("values[", i, "].count is ", value.count(), "; must be 1 to ", answer.num_documents())};
    }
    if (i == 0 || IsBefore(answer.values(i - 1), value)) continue;
    return AnswerFault{"values", absl::StrCat("values[", i, "] is not after values[", i - 1, "] in their order")};
  }
  return std::nullopt;
}

v1::CountResponse MergeCounts(const CollectionView& collection,
                              const std::vector<absl::StatusOr<v1::CountResponse>>& answers) {
  v1::CountResponse merged;
  MergeSnapshot(collection, answers, merged);
  for (const absl::StatusOr<v1::CountResponse>& answer : answers) {
    merged.set_count(merged.count() + answer->count());
    merged.set_token_bytes(merged.token_bytes() + answer->token_bytes());
  }
  return merged;
}

absl::StatusOr<v1::FacetsResponse> MergeFacets(const v1::FacetsRequest& request, const CollectionView& collection,
                                               std::vector<absl::StatusOr<v1::FacetsResponse>> answers) {
  if (answers.size() == 1) return std::move(answers.front());
  std::unordered_map<std::string_view, uint64_t> counts;
  v1::FacetsResponse merged;
  MergeSnapshot(collection, answers, merged);
  for (size_t part = 0; part < answers.size(); ++part) {
    const v1::FacetsResponse& answer = *answers[part];
    if (answer.num_values() > static_cast<uint64_t>(answer.values_size())) {
      return service::InvalidField(
          "field",
          absl::StrCat("is ", Quote(request.field()), ", of which the matching documents of one group of servers have ",
                       answer.num_values(), " values; counts are added up over groups where each has at most ",
                       service::kMaxFacetValues, ": a filter that fewer documents match may help"),
          {service::kMaxFacetValues, answer.num_values()});
    }
    merged.set_num_documents(merged.num_documents() + answer.num_documents());
    for (const v1::FacetValue& value : answer.values()) counts[value.value()] += value.count();
  }
  std::vector<Sum> sums;
  sums.reserve(counts.size());
  for (const auto& [value, count] : counts) sums.push_back({value, count});
  const size_t limit = request.limit() == 0 ? service::kDefaultFacetValues : request.limit();
  const auto end = sums.begin() + static_cast<std::ptrdiff_t>(std::min(limit, sums.size()));
  std::partial_sort(sums.begin(), end, sums.end(), IsBefore<Sum>);
  merged.set_num_values(sums.size());
  for (auto sum = sums.begin(); sum != end; ++sum) {
    v1::FacetValue& value = *merged.add_values();
    value.set_value(std::string(sum->text));
    value.set_count(sum->documents);
  }
  return merged;
}

}  // namespace maxsim::cluster
