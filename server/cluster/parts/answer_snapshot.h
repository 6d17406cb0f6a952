// The generation and the sequence of groups' answers to calls that read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/view.h"

namespace maxsim::cluster {

// Checks that one group's answer has the generation and the sequence that its request asks for.
template <typename Request, typename Response>
std::optional<AnswerFault> CheckSnapshot(const Request& request, const Response& answer) {
  if (request.generation() != 0 && answer.generation() != request.generation()) {
    return AnswerFault{"generation", absl::StrCat("generation is ", answer.generation(), ", but ", request.generation(),
                                                  " was asked for")};
  }
  if (answer.sequence() >= request.min_sequence()) return std::nullopt;
  return AnswerFault{"sequence", absl::StrCat("sequence is ", answer.sequence(), ", but at least ",
                                              request.min_sequence(), " was asked for")};
}

// Sets the generation and the sequence of an answer that is merged from one answer for each part of the collection,
// each OK. The generation is the highest of all; the sequence is the lowest, or 0 if the parts have separate logs.
template <typename Response>
void MergeSnapshot(const CollectionView& collection, const std::vector<absl::StatusOr<Response>>& answers,
                   Response& merged) {
  for (size_t part = 0; part < answers.size(); ++part) {
    const Response& answer = *answers[part];
    merged.set_generation(std::max(merged.generation(), answer.generation()));
    if (!collection.has_one_log()) continue;
    merged.set_sequence(part == 0 ? answer.sequence() : std::min(merged.sequence(), answer.sequence()));
  }
}

}  // namespace maxsim::cluster
