// Checks a replica's answers to Rerank and Explain against the request. Pure: no network, no clock.
//
// The checks take time linear in the size of the answer. If an answer has fewer results than top_k, they also go
// through the request's list of ids. The checks must accept every right answer, whatever the client sent: otherwise a
// client could make right answers look wrong, and get all replicas ejected.
#pragma once

#include <cstdint>
#include <optional>

#include "collection/slots.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/answer_fault.h"
#include "server/cluster/groups/view.h"
#include "server/cluster/parts/split.h"

namespace maxsim::cluster {

// Describes the part of a collection to which the router sends a request.
struct AskedPart {
  bool has_int_ids = false;
  collection::SlotRange slots;
  uint64_t num_documents = 0;  // in the generation that the request names
  bool has_visible = false;    // the client may not know of all documents (PartRequest::has_visible)
};

// Returns the facts against which the answers to a part's request are checked. `collection` is the one passed to
// SplitRerank.
AskedPart AskedPartOf(const PartRequest& part, const CollectionView* collection);

// Checks that an answer has one result per query, with the right counts, ids of the right kind that belong to the
// request, positions in range, finite scores in rank order, payloads and alignments of the right number and size, and
// the generation and sequence that the request names. `request` must come from SplitRerank.
std::optional<AnswerFault> CheckRerankAnswer(const v1::RerankRequest& request, const AskedPart& part,
                                             const v1::RerankResponse& answer);

// Checks the sizes and values of an answer that explains the request's first query.
std::optional<AnswerFault> CheckExplainAnswer(const v1::RerankRequest& request, const v1::ExplainResponse& answer);

}  // namespace maxsim::cluster
