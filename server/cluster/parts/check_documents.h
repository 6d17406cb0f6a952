// Checks a replica's answers to writes and reads of documents against the request. Pure: no network, no clock.
#pragma once

#include <cstdint>
#include <optional>

#include "maxsim/v1/documents.pb.h"
#include "server/cluster/groups/answer_fault.h"

namespace maxsim::cluster {

// Checks that the answer has one result per write, with an outcome that this kind of write can have; that applied
// writes have a sequence no later than the collection's; and that the number of encoded tokens fits the number of
// texts. The answer to a delete with a filter has no results: its numbers must fit each other, the limits and the
// sequence.
std::optional<AnswerFault> CheckUpsertAnswer(const v1::UpsertRequest& request, const v1::UpsertResponse& answer);
std::optional<AnswerFault> CheckDeleteAnswer(const v1::DeleteRequest& request, const v1::DeleteResponse& answer);

// The form in which a collection stores its documents.
struct StoredShape {
  v1::DataType storage = v1::DATA_TYPE_F16;
  uint32_t dim = 0;
};

// Checks document `idx` of an answer: that its counts and dimensions are valid, and that it has token vectors of the
// right size and type if they were requested.
std::optional<AnswerFault> CheckStoredDocument(bool has_tokens, const StoredShape& shape,
                                               const v1::StoredDocument& document, int idx);

// Checks that the answer lists every requested id, as often and in the order in which the ids were requested, either
// with its document or as missing. Also checks that requested token vectors are there with the right size and type,
// and checks the sequence.
std::optional<AnswerFault> CheckGetAnswer(const v1::GetRequest& request, const StoredShape& shape,
                                          const v1::GetResponse& answer);

}  // namespace maxsim::cluster
