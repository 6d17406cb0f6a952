// Checks a replica's answers to Rerank and Explain against what it was asked. Pure: no network, no clock.
//
// The checks are linear in the answer, and in the list of ids only where an answer has fewer results than top_k. They
// must pass every right answer, whatever the client sent: a client that could make one look wrong could have all
// replicas ejected.
#pragma once

#include <cstdint>
#include <optional>

#include "collection/slots.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/answer_fault.h"
#include "server/cluster/split.h"
#include "server/cluster/view.h"

namespace maxsim::cluster {

// The part of a collection that a request is sent to.
struct AskedPart {
  bool has_int_ids = false;
  collection::SlotRange slots;
  uint64_t num_documents = 0;  // of the generation that the request names
};

// Returns the facts that answers to a part's request are checked against. `collection` is that of SplitRerank.
AskedPart AskedPartOf(const PartRequest& part, const CollectionView* collection);

// Checks that an answer has one result per query, with right counts, kinds and membership of ids, positions in range,
// finite scores in rank order, payloads and alignments of the right number and size, and the generation and the
// sequence that the request names. `request` must be one that SplitRerank made.
std::optional<AnswerFault> CheckRerankAnswer(const v1::RerankRequest& request, const AskedPart& part,
                                             const v1::RerankResponse& answer);

// Checks the sizes and the values of an explanation of the request's first query.
std::optional<AnswerFault> CheckExplainAnswer(const v1::RerankRequest& request, const v1::ExplainResponse& answer);

}  // namespace maxsim::cluster
