// Names the members of the body of a rerank call. It is internal to server/http.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace maxsim::http {

enum class Member : uint8_t {
  kNone,
  kModel,
  kQuery,
  kWeights,
  kDocuments,
  kTopN,
  kReturnDocuments,
  kReturnAlignments,
  kPayloadFields,
  kNormalize,
  kRequestId,
  kMinSequence,
  kOffset,
  kMinScore,
  kGroupBy,
  kGroupSize,
  kRankFields,
  kRefinement,
  kFilter,
  kIgnored,  // part of some service's API, but meaningless for exact scores of whole documents
};

struct MemberName {
  std::string_view name;
  Member member;
};

// Clients of different services use different names for the same member (docs/reference/http.md), so a Member may have
// several.
inline constexpr std::array<MemberName, 49> kMemberNames = {{
    {"model", Member::kModel},
    {"model_id", Member::kModel},
    {"query", Member::kQuery},
    {"query_weights", Member::kWeights},
    {"documents", Member::kDocuments},
    {"texts", Member::kDocuments},
    {"passages", Member::kDocuments},
    {"top_n", Member::kTopN},
    {"top_k", Member::kTopN},
    {"return_documents", Member::kReturnDocuments},
    {"return_text", Member::kReturnDocuments},
    {"return_alignments", Member::kReturnAlignments},
    {"payload_fields", Member::kPayloadFields},
    {"normalize", Member::kNormalize},
    {"request_id", Member::kRequestId},
    {"min_sequence", Member::kMinSequence},
    {"offset", Member::kOffset},
    {"min_score", Member::kMinScore},
    {"score_threshold", Member::kMinScore},
    {"group_by", Member::kGroupBy},
    {"group_size", Member::kGroupSize},
    {"rank_fields", Member::kRankFields},
    {"refinement", Member::kRefinement},
    {"filter", Member::kFilter},
    {"activation", Member::kIgnored},
    {"encoding_format", Member::kIgnored},
    {"instruction", Member::kIgnored},
    {"kwargs", Member::kIgnored},
    {"max_chunks_per_doc", Member::kIgnored},
    {"max_doc_length", Member::kIgnored},
    {"max_query_length", Member::kIgnored},
    {"max_tokens_per_doc", Member::kIgnored},
    {"max_tokens_per_query", Member::kIgnored},
    {"mm_processor_kwargs", Member::kIgnored},
    {"overlap_tokens", Member::kIgnored},
    {"priority", Member::kIgnored},
    {"raw_scores", Member::kIgnored},
    {"relevant_spans", Member::kIgnored},
    {"return_embeddings", Member::kIgnored},
    {"return_len", Member::kIgnored},
    {"softmax", Member::kIgnored},
    {"truncate", Member::kIgnored},
    {"truncate_prompt_tokens", Member::kIgnored},
    {"truncation", Member::kIgnored},
    {"truncation_direction", Member::kIgnored},
    {"truncation_side", Member::kIgnored},
    {"use_activation", Member::kIgnored},
    {"user", Member::kIgnored},
    {"user_id", Member::kIgnored},
}};

// Returns the name in the HTTP body of a field of RerankRequest whose name differs there; else "".
inline std::string_view NameOfField(std::string_view field) {
  if (field == "collection") return "model";
  if (field == "queries") return "query";
  if (field == "candidates") return "documents";
  if (field == "return_payloads") return "return_documents";
  return "";
}

}  // namespace maxsim::http
