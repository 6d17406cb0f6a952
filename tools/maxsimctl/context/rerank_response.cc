#include "tools/maxsimctl/context/rerank_response.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "base/text.h"
#include "base/units.h"
#include "client/info_json.h"
#include "tools/command_line/terminal.h"

namespace maxsim::ctl {
namespace {

Json IdJson(const v1::QueryResult& result, int i) {
  if (result.has_int_ids()) return result.int_ids().ids(i);
  if (result.has_string_ids()) return result.string_ids().ids(i);
  return nullptr;
}

Json HitJson(const v1::QueryResult& result, int64_t rank, int i) {
  Json hit = {{"rank", rank},
              {"id", IdJson(result, i)},
              {"score", Shortest(result.scores(i))},
              {"position", result.positions(i)}};
  if (i < result.group_values_size()) hit["group"] = result.group_values(i);
  if (i < result.truncated_size() && result.truncated(i)) hit["truncated"] = true;
  if (result.payloads_size() > 0) hit["payload"] = PayloadJson(result.payloads(i));
  if (result.alignments_size() > 0) {
    const v1::Alignment& alignment = result.alignments(i);
    Json similarities = Json::array();
    for (const float similarity : alignment.similarities()) similarities.push_back(Shortest(similarity));
    hit["alignment"] = {{"document_tokens", alignment.document_tokens()}, {"similarities", std::move(similarities)}};
  }
  return hit;
}

}  // namespace

absl::Status CheckResponse(const v1::RerankRequest& request, const v1::RerankResponse& response) {
  const auto wrong = [](const std::string& what) {
    return absl::InternalError("the server's answer is wrong: " + what);
  };
  if (response.results_size() != 1) return wrong(Cat(response.results_size(), " results for one query"));
  const v1::QueryResult& result = response.results(0);
  const int hits = result.scores_size();
  const int ids = result.has_int_ids()      ? result.int_ids().ids_size()
                  : result.has_string_ids() ? result.string_ids().ids_size()
                                            : hits;
  if (ids != hits || result.positions_size() != hits) {
    return wrong(Cat(hits, " scores, ", ids, " ids and ", result.positions_size(), " positions"));
  }
  if (request.return_payloads() ? result.payloads_size() != hits && result.payloads_size() != 0
                                : result.payloads_size() != 0) {
    return wrong(Cat(result.payloads_size(), " payloads for ", hits, " documents"));
  }
  if (result.group_values_size() != (request.group_by().empty() ? 0 : hits)) {
    return wrong(Cat(result.group_values_size(), " groups for ", hits, " documents"));
  }
  if (result.alignments_size() != (request.return_alignments() ? hits : 0)) {
    return wrong(Cat(result.alignments_size(), " alignments for ", hits, " documents"));
  }
  // Only the server knows how many tokens a query text has. For a text, this checks only that all alignments have the
  // same length.
  const int num_tokens = !request.queries(0).has_text() ? static_cast<int>(request.queries(0).tokens().num_tokens())
                         : result.alignments_size() > 0 ? result.alignments(0).document_tokens_size()
                                                        : 0;
  for (const v1::Alignment& alignment : result.alignments()) {
    if (alignment.document_tokens_size() != num_tokens || alignment.similarities_size() != num_tokens) {
      return wrong(Cat("an alignment of ", alignment.document_tokens_size(), " tokens for a query of ", num_tokens));
    }
  }
  return absl::OkStatus();
}

int NumHits(const v1::QueryResult& result) { return result.scores_size(); }

std::string IdText(const v1::QueryResult& result, int i) {
  if (result.has_int_ids()) return std::to_string(result.int_ids().ids(i));
  if (result.has_string_ids()) return result.string_ids().ids(i);
  return "";
}

std::vector<std::string> MissingIds(const v1::QueryResult& result) {
  std::vector<std::string> missing(result.missing_string_ids().ids().begin(), result.missing_string_ids().ids().end());
  for (const int64_t id : result.missing_int_ids().ids()) missing.push_back(std::to_string(id));
  return missing;
}

std::vector<std::string> TruncationRemarks(const v1::QueryResult& result) {
  std::vector<std::string> remarks;
  if (result.query_truncated()) {
    remarks.push_back("the encoder cut the end of the query's text, which is longer than its model reads");
  }
  if (const auto count = std::count(result.truncated().begin(), result.truncated().end(), true); count > 0) {
    remarks.push_back(Cat("the encoder cut the end of ", FormatCount(count), count == 1 ? " document" : " documents"));
  }
  return remarks;
}

std::string RefinementText(const v1::Refinement& refinement) {
  const bool is_proven = refinement.certificate() == v1::CERTIFICATE_PROVEN;
  const std::string margin =
      refinement.has_outside_score()
          ? Cat(", margin ", command_line::Fixed(refinement.margin(), 6),
                refinement.outside_is_bound() ? " to the bound of the others" : " to the estimates of the others")
          : "";
  return Cat("scanned ", refinement.planes(), refinement.planes() == 1 ? " plane" : " planes", " of codes, scored ",
             FormatCount(static_cast<int64_t>(refinement.documents())), " documents; ",
             is_proven ? "proven" : "not proven", margin);
}

std::vector<int64_t> RanksOf(int64_t offset, const v1::QueryResult& result) {
  std::vector<int64_t> ranks;
  int64_t rank = offset;
  for (int i = 0; i < NumHits(result); ++i) {
    const bool is_of_last_group =
        i > 0 && i < result.group_values_size() && result.group_values(i) == result.group_values(i - 1);
    if (!is_of_last_group) ++rank;
    ranks.push_back(rank);
  }
  return ranks;
}

std::string WhyUnavailable(const v1::RerankResponse& response) {
  if (response.unavailable_groups().empty()) return "the server has lost a device, or does not reach other servers";
  return command_line::WithoutControls(Cat(response.unavailable_groups_size() == 1 ? "group " : "groups ",
                                           absl::StrJoin(response.unavailable_groups(), ", "),
                                           response.unavailable_groups_size() == 1 ? " does" : " do", " not answer"));
}

Json ToJson(const v1::RerankRequest& request, const v1::RerankResponse& response) {
  const v1::QueryResult& result = response.results(0);
  const std::vector<int64_t> ranks = RanksOf(request.offset(), result);
  Json hits = Json::array();
  for (int i = 0; i < NumHits(result); ++i) hits.push_back(HitJson(result, ranks[static_cast<size_t>(i)], i));
  Json missing = Json::array();
  for (const std::string& id : result.missing_string_ids().ids()) missing.push_back(id);
  for (const int64_t id : result.missing_int_ids().ids()) missing.push_back(id);
  const v1::Timings& timings = response.timings();
  Json answer = {{"generation", response.generation()},
                 {"sequence", response.sequence()},
                 {"results", std::move(hits)},
                 {"missing", std::move(missing)},
                 {"unavailable_documents", result.unavailable_documents()},
                 {"timings_us",
                  {{"encode", timings.encode_us()},
                   {"queue", timings.queue_us()},
                   {"copy", timings.copy_us()},
                   {"kernel", timings.kernel_us()},
                   {"total", timings.total_us()}}}};
  if (response.unavailable_groups_size() > 0) answer["unavailable_groups"] = response.unavailable_groups();
  if (result.query_truncated()) answer["query_truncated"] = true;
  if (result.query_tokens_size() > 0) answer["query_tokens"] = result.query_tokens();
  if (result.has_refinement()) answer["refinement"] = client::RefinementJson<Json>(result.refinement());
  return answer;
}

}  // namespace maxsim::ctl
