// Makes the errors about wrong values in the body of a rerank call. They say which value is wrong and which values
// are accepted.
#include <cstdint>
#include <string_view>

#include "server/http/rerank/rerank_events.h"

namespace maxsim::http {

bool RerankEvents::Refuse(std::string_view shown) {
  if (depth() == 0) return Fail("the body is not a JSON object");
  if (depth() == 2) return RefuseElement(shown);
  if (depth() > 2) {
    return WrongValue(Cat(DocumentPath(), ".", part_), shown,
                      part_ == "id"     ? ", not a text or a 64-bit integer"
                      : part_ == "text" ? ", not a text"
                                        : "; must be a list of rows of numbers, or {dtype, shape, data}");
  }
  switch (member_) {
    case Member::kQuery:
      return RefuseQuery();
    case Member::kDocuments:
      return RefuseDocuments();
    case Member::kWeights:
      return Wrong("query_weights", "must be a list of numbers");
    case Member::kPayloadFields:
      return Wrong("payload_fields", "must be a list of names");
    case Member::kTopN:
      return WrongValue(top_n_name_, shown,
                        Cat("; must be a whole number from 0 to ", limits_.max_top_k, " (limits.max_top_k)"));
    case Member::kMinSequence:
      return WrongValue("min_sequence", shown, ", not a sequence number");
    case Member::kReturnDocuments:
      return WrongValue("return_documents", shown, ", not true or false");
    case Member::kReturnAlignments:
      return WrongValue("return_alignments", shown, ", not true or false");
    case Member::kNormalize:
      return WrongValue("normalize", shown, ", not true or false");
    case Member::kOffset:
      return WrongValue("offset", shown,
                        Cat("; must be a whole number from 0 to ", limits_.max_top_k, " (limits.max_top_k)"));
    case Member::kGroupBy:
      return WrongValue("group_by", shown, ", not the name of a field");
    case Member::kGroupSize:
      return WrongValue("group_size", shown,
                        Cat("; must be a whole number from 0 to ", limits_.max_top_k, " (limits.max_top_k)"));
    case Member::kMinScore:
      return WrongValue(min_score_name_, shown, ", not a number");
    case Member::kRankFields:
      return Wrong("rank_fields", "must be a list of names");
    case Member::kRefinement:
      return WrongValue("refinement", shown, ", not an object with documents, budget and require_proof");
    case Member::kFilter:
      return WrongValue("filter", shown, ", not an object, nor a text such as lang = \"en\" and year >= 2020");
    case Member::kModel:
      return WrongValue("model", shown, ", not a text");
    default:
      return WrongValue("request_id", shown, ", not a text");
  }
}

// Refuses an element of a list, or a value in the object of the query or of the refinement.
bool RerankEvents::RefuseElement(std::string_view shown) {
  switch (member_) {
    case Member::kWeights:
      return WrongValue(Cat("query_weights[", query_.weights_size(), "]"), shown, ", not a number");
    case Member::kPayloadFields:
      return WrongValue(Cat("payload_fields[", request_.payload_fields_size(), "]"), shown, ", not a text");
    case Member::kRankFields:
      return WrongValue(Cat("rank_fields[", rank_fields_.size(), "]"), shown, ", not a text");
    case Member::kRefinement:
      return WrongValue(
          Cat("refinement.", part_), shown,
          part_ == "require_proof" ? ", not true or false" : Cat("; must be a whole number from 0 to ", UINT32_MAX));
    case Member::kQuery:
      return WrongValue("query.text", shown, ", not a text");
    default:
      return WrongValue(DocumentPath(), shown,
                        "; documents must be of one kind: all ids that are texts, all ids that are 64-bit integers, "
                        "all objects with a text, or all objects with tokens");
  }
}

}  // namespace maxsim::http
