// Names the members of a body of /v1/rerank. It is internal to server/http.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace maxsim::http {

// These are the members of the body.
enum class Member : uint8_t { kNone, kModel, kQuery, kWeights, kDocuments, kTopN, kReturnDocuments, kRequestId };
// The members of a query that is an object.
enum class QueryMember : uint8_t { kNone, kDtype, kShape, kData };

template <typename Id>
struct MemberName {
  std::string_view name;
  Id id;
  bool required;
};
inline constexpr std::array<MemberName<Member>, 7> kMembers = {{{"model", Member::kModel, true},
                                                                {"query", Member::kQuery, true},
                                                                {"documents", Member::kDocuments, true},
                                                                {"query_weights", Member::kWeights, false},
                                                                {"top_n", Member::kTopN, false},
                                                                {"return_documents", Member::kReturnDocuments, false},
                                                                {"request_id", Member::kRequestId, false}}};
inline constexpr std::array<MemberName<QueryMember>, 3> kQueryMembers = {
    {{"dtype", QueryMember::kDtype, true}, {"shape", QueryMember::kShape, true}, {"data", QueryMember::kData, true}}};

// What a member of the body is called that has the name of RerankRequest's field, or "".
inline std::string_view NameOfField(std::string_view field) {
  if (field == "collection") return "model";
  if (field == "queries") return "query";
  if (field == "candidates") return "documents";
  if (field == "top_k") return "top_n";
  if (field == "return_payloads") return "return_documents";
  return "";
}

}  // namespace maxsim::http
